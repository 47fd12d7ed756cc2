package cdcm;

import java.io.Serializable;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.api.java.UDF1;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.types.DataTypes;

/**
 * The number that Kafka's own partitioner makes of a key's bytes (`DefaultPartitioner`, KIP-480): the partition is what
 * is left of it when it is divided by how many partitions there are. It is MurmurHash2 with Kafka's seed, without its
 * sign. Written out here, because the classes of Kafka's client are not on every executor: raw is read without a broker.
 * Janino compiles this file: no lambdas, no type inference.
 */
public final class KafkaPartitioner implements UDF1, Serializable {
  private static final long serialVersionUID = 1L;
  private static final int SEED = 0x9747b28c;
  private static final int FACTOR = 0x5bd1e995;

  /** The number as a column; NULL without a key. */
  public Column of(Column key) {
    return functions.udf((UDF1) this, DataTypes.IntegerType).apply(new Column[] {key});
  }

  public Object call(Object key) {
    return key == null ? null : (Object) Integer.valueOf(hash((byte[]) key) & Integer.MAX_VALUE);
  }

  private static int hash(byte[] key) {
    int found = SEED ^ key.length;
    int whole = key.length / 4 * 4;
    for (int at = 0; at < whole; at += 4) {
      int four = octet(key, at) | octet(key, at + 1) << 8 | octet(key, at + 2) << 16 | octet(key, at + 3) << 24;
      four *= FACTOR;
      four ^= four >>> 24;
      found = found * FACTOR ^ four * FACTOR;
    }
    for (int at = key.length - 1; at >= whole; at--) {
      found ^= octet(key, at) << 8 * (at - whole);
    }
    if (whole < key.length) {
      found *= FACTOR;
    }
    found ^= found >>> 13;
    found *= FACTOR;
    return found ^ found >>> 15;
  }

  private static int octet(byte[] key, int at) {
    return key[at] & 0xff;
  }
}
