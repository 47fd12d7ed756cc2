package cdcm;

import org.apache.spark.sql.Column;
import org.apache.spark.sql.Encoder;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.expressions.Aggregator;
import org.apache.spark.sql.functions;
import scala.Tuple3;

/**
 * Whose row a key is after its changes, one after the other (see `owners.py`, which says what they are).
 *
 * Janino compiles this file: no lambdas, no type inference.
 */
public final class KeyOwner extends Aggregator {
  private static final long serialVersionUID = 1L;
  /** No change yet: not even who owned the key before is known. */
  private static final String NOTHING = "";
  /** Begins every other state, so that no name of a table is taken for NOTHING; alone, nobody owns the key. */
  private static final String KNOWN = "=";

  /** An aggregate, for windows in the order of the changes: the owner after the last one. */
  public Column inOrder(Column table, Column lives, Column first) {
    Encoder change = Encoders.tuple(Encoders.STRING(), Encoders.BOOLEAN(), Encoders.STRING());
    return functions.udaf(this, change).apply(new Column[] {table, lives, first});
  }

  public Object zero() {
    return NOTHING;
  }

  /** The owner after a change: its table, NULL where it names none; whether it leaves a row, NULL where it is none. */
  public Object reduce(Object known, Object given) {
    Tuple3 change = (Tuple3) given;
    Object before = NOTHING.equals(known) ? state(change._3()) : known;
    if (change._2() == null) {
      return before;
    }
    Object own = state(change._1());
    boolean isOwners = KNOWN.equals(before) || KNOWN.equals(own) || before.equals(own);
    if (!isOwners) {
      return before;
    }
    if (!((Boolean) change._2()).booleanValue()) {
      return KNOWN;
    }
    return KNOWN.equals(own) ? before : own;
  }

  public Object merge(Object one, Object other) {
    throw new UnsupportedOperationException("changes are in an order");
  }

  public Object finish(Object known) {
    return NOTHING.equals(known) || KNOWN.equals(known) ? null : ((String) known).substring(KNOWN.length());
  }

  public Encoder bufferEncoder() {
    return Encoders.STRING();
  }

  public Encoder outputEncoder() {
    return Encoders.STRING();
  }

  private static String state(Object table) {
    return table == null ? KNOWN : KNOWN + table;
  }
}
