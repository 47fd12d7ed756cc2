"""Wire formats to typed columns, on the JVM: framing, writer schemas, and what each wire type means."""
