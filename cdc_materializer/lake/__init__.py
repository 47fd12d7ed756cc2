"""The Iceberg tables through Spark: loaded, staged on a branch, published by one commit that readers see."""
