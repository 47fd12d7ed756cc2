package cdcm;

import java.util.ArrayList;
import java.util.BitSet;
import java.util.HashMap;
import java.util.IdentityHashMap;
import java.util.Iterator;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.Encoder;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.api.java.UDF2;
import org.apache.spark.sql.expressions.Aggregator;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.types.DataTypes;
import scala.Tuple2;

/**
 * What a document is after updates that say only what they changed (changelog-semantics §5, `updateDescription`).
 *
 * An update is JSON (see `documents.py`, which makes it): `cut`, arrays with the length that is left of them; `unset`,
 * paths of fields that are gone; `set`, the text of an object of paths and values. They are taken in this order. A path
 * that does not lead where the update says makes the document unknown: NULL. Every value stays the text that it was.
 * Janino compiles this file: no lambdas, no type inference.
 */
public final class DocumentUpdate extends Aggregator implements UDF2 {
  private static final long serialVersionUID = 1L;
  /** MongoDB nests 100 levels, and Extended JSON puts objects around what JSON has no form for. */
  private static final int DEPTH_MAX = 250;
  /** How many elements MongoDB itself puts before one that is set behind an array's end; here, those of an update. */
  private static final int PADDING_MAX = 1500000;
  /** How long a document may be after an update: MongoDB's have 16 MB, and few values are twice as long as JSON. */
  private static final int LENGTH_MAX = 32 * 1024 * 1024;
  /** How often an update may be held against names with a dot in them, which hardly any document has. */
  private static final int DOTTED_MAX = 50000000;
  /** No update yet; and a document that is unknown. */
  private static final String NOTHING = "";
  private static final String UNKNOWN = "?";
  /** Names with which Extended JSON begins an object that is one value. */
  private static final String VALUES =
      " $oid $numberInt $numberLong $numberDouble $numberDecimal $date $binary $type $uuid $timestamp $regularExpression"
          + " $regex $options $symbol $code $scope $minKey $maxKey $undefined $dbPointer ";

  /** A document and an update, as columns: the document after it. */
  public Column of(Column document, Column update) {
    return functions.udf((UDF2) this, DataTypes.StringType).apply(new Column[] {document, update});
  }

  /** An aggregate, for windows in the order of the updates: the document after the last one, from the first's. */
  public Column inOrder(Column document, Column update) {
    Encoder both = Encoders.tuple(Encoders.STRING(), Encoders.STRING());
    return functions.udaf(this, both).apply(new Column[] {document, update});
  }

  public Object call(Object document, Object update) {
    if (document == null || update == null) {
      return null;
    }
    String found = after((String) document, (String) update);
    return found == UNKNOWN ? null : found;
  }

  public Object zero() {
    return NOTHING;
  }

  public Object reduce(Object known, Object given) {
    Tuple2 both = (Tuple2) given;
    if (both._2() == null || UNKNOWN.equals(known)) {
      return known;
    }
    Object document = NOTHING.equals(known) ? both._1() : known;
    return document == null ? UNKNOWN : after((String) document, (String) both._2());
  }

  public Object merge(Object one, Object other) {
    throw new UnsupportedOperationException("updates are in an order");
  }

  public Object finish(Object known) {
    return NOTHING.equals(known) || UNKNOWN.equals(known) ? null : known;
  }

  public Encoder bufferEncoder() {
    return Encoders.STRING();
  }

  public Encoder outputEncoder() {
    return Encoders.STRING();
  }

  private static String after(String document, String update) {
    try {
      Text text = new Text(document);
      Node root = text.whole();
      Node told = new Text(update).whole();
      Places places = new Places();
      Node cuts = told.field("cut");
      for (int at = 0; cuts != null && at < cuts.size(); at++) {
        cut(root, cuts.at(at), places);
      }
      Node gone = told.field("unset");
      for (int at = 0; gone != null && at < gone.size(); at++) {
        unset(root, path(gone.at(at).text()), places);
      }
      places.drop();
      Node set = told.field("set");
      Node values = set == null ? null : new Text(set.text()).whole();
      int padding = PADDING_MAX;
      for (int at = 0; values != null && at < values.size(); at++) {
        padding -= set(root, path(values.name(at)), values.at(at), padding, places);
      }
      return root.written(text.afterColon, text.afterComma);
    } catch (RuntimeException unfit) {
      // Parts that are not there, too: an update that cannot be understood is held, and stops nothing else.
      return UNKNOWN;
    }
  }

  private static void cut(Node root, Node told, Places places) {
    Node array = reached(root, path(told.field("field").text()), false, places);
    if (array == null || array.kind != Node.ARRAY) {
      throw new Unfit();
    }
    int size = index(told.field("size").raw);
    while (array.size() > size) {
      array.remove(array.size() - 1);
    }
  }

  private static void unset(Node root, String[] path, Places places) {
    Node parent = reached(root, path, true, places);
    if (parent == null) {
      return;
    }
    if (parent.kind != Node.OBJECT) {
      throw new Unfit();
    }
    Fields fields = places.of(parent);
    int at = fields.place(path, path.length - 1);
    if (at >= 0) {
      fields.remove(at);
    }
  }

  /** Sets one value, and tells how many elements were put before it; there may be `padding`. */
  private static int set(Node root, String[] path, Node value, int padding, Places places) {
    Node parent = reached(root, path, true, places);
    if (parent == null) {
      throw new Unfit();
    }
    String last = path[path.length - 1];
    if (parent.kind == Node.OBJECT) {
      Fields fields = places.of(parent);
      int at = fields.place(path, path.length - 1);
      if (at >= 0) {
        parent.put(at, value);
      } else {
        fields.add(last, value);
      }
    } else if (parent.kind == Node.ARRAY) {
      int at = index(last);
      int missing = Math.max(at - parent.size(), 0);
      if (missing > padding) {
        throw new Unfit();
      }
      while (parent.size() <= at) {
        parent.add(null, Node.NULL);
      }
      parent.put(at, value);
      return missing;
    } else {
      throw new Unfit();
    }
    return 0;
  }

  /** What stands at the end of a path, or before its last name; null where there is nothing. */
  private static Node reached(Node root, String[] path, boolean before, Places places) {
    Node found = root;
    for (int depth = 0; depth < path.length - (before ? 1 : 0); depth++) {
      if (found.kind == Node.OBJECT) {
        int at = places.of(found).place(path, depth);
        if (at < 0) {
          return null;
        }
        found = found.at(at);
      } else if (found.kind == Node.ARRAY) {
        int at = index(path[depth]);
        if (at >= found.size()) {
          return null;
        }
        found = found.at(at);
      } else {
        throw new Unfit();
      }
    }
    if (found.kind == Node.OBJECT && places.of(found).isValue()) {
      throw new Unfit();
    }
    return found;
  }

  private static String[] path(String dotted) {
    String[] names = dotted.split("\\.", -1);
    for (int at = 0; at < names.length; at++) {
      if (names[at].isEmpty()) {
        throw new Unfit();
      }
    }
    return names;
  }

  private static int index(String digits) {
    if (digits.length() > 9 || (digits.length() > 1 && digits.charAt(0) == '0')) {
      throw new Unfit();
    }
    for (int at = 0; at < digits.length(); at++) {
      if (digits.charAt(at) < '0' || digits.charAt(at) > '9') {
        throw new Unfit();
      }
    }
    return Integer.parseInt(digits);
  }

  /** Raised where an update does not fit its document. It says nothing of either, and costs no stack trace. */
  private static final class Unfit extends RuntimeException {
    private static final long serialVersionUID = 1L;

    Unfit() {
      super(null, null, false, false);
    }
  }

  /** A value of JSON: the text of a plain one, the names (as written, and what they say) and values of others. */
  private static final class Node {
    static final int LEAF = 0;
    static final int ARRAY = 1;
    static final int OBJECT = 2;
    static final Node NULL = new Node(LEAF, "null");

    final int kind;
    final String raw;
    /** Only those that a kind has are there: a document may have millions of nodes. */
    private final ArrayList names;
    private final ArrayList spelled;
    private final ArrayList values;

    private Node(int kind, String raw) {
      this.kind = kind;
      this.raw = raw;
      names = kind == OBJECT ? new ArrayList() : null;
      spelled = kind == OBJECT ? new ArrayList() : null;
      values = kind == LEAF ? null : new ArrayList();
    }

    static Node nested(boolean isObject) {
      return new Node(isObject ? OBJECT : ARRAY, null);
    }

    static Node leaf(String raw) {
      return "null".equals(raw) ? NULL : new Node(LEAF, raw);
    }

    int size() {
      return values == null ? 0 : values.size();
    }

    Node at(int place) {
      return (Node) values.get(place);
    }

    String name(int place) {
      return (String) names.get(place);
    }

    void add(String name, Node value) {
      add(name, name == null ? null : quoted(name), value);
    }

    void add(String name, String spelling, Node value) {
      if (kind == OBJECT) {
        names.add(name);
        spelled.add(spelling);
      }
      values.add(value);
    }

    void put(int place, Node value) {
      values.set(place, value);
    }

    void remove(int place) {
      values.remove(place);
    }

    /** Drops fields of an object, all at once: each by itself would move those behind it. */
    void remove(BitSet places) {
      int kept = 0;
      for (int at = 0; at < values.size(); at++) {
        if (!places.get(at)) {
          names.set(kept, names.get(at));
          spelled.set(kept, spelled.get(at));
          values.set(kept, values.get(at));
          kept++;
        }
      }
      names.subList(kept, names.size()).clear();
      spelled.subList(kept, spelled.size()).clear();
      values.subList(kept, values.size()).clear();
    }

    /** The only field of a name in what this project wrote itself. */
    Node field(String name) {
      int at = names.indexOf(name);
      return at < 0 || "null".equals(at(at).raw) ? null : at(at);
    }

    String text() {
      return new Text(raw).string();
    }

    String written(String afterColon, String afterComma) {
      StringBuilder found = new StringBuilder();
      write(found, afterColon, afterComma);
      bounded(found);
      return found.toString();
    }

    private void write(StringBuilder out, String afterColon, String afterComma) {
      bounded(out);
      if (kind == LEAF) {
        out.append(raw);
        return;
      }
      out.append(kind == OBJECT ? '{' : '[');
      for (int at = 0; at < values.size(); at++) {
        if (at > 0) {
          out.append(',').append(afterComma);
        }
        if (kind == OBJECT) {
          out.append((String) spelled.get(at)).append(':').append(afterColon);
        }
        at(at).write(out, afterColon, afterComma);
      }
      out.append(kind == OBJECT ? '}' : ']');
    }

    private static void bounded(StringBuilder out) {
      if (out.length() > LENGTH_MAX) {
        throw new Unfit();
      }
    }

    private static String quoted(String name) {
      StringBuilder found = new StringBuilder("\"");
      for (int at = 0; at < name.length(); at++) {
        char one = name.charAt(at);
        if (one == '"' || one == '\\') {
          found.append('\\').append(one);
        } else if (one < ' ') {
          found.append("\\u00").append(one < 16 ? "0" : "").append(Integer.toHexString(one));
        } else {
          found.append(one);
        }
      }
      return found.append('"').toString();
    }
  }

  /** The fields of the objects that the paths of an update lead through. */
  private static final class Places {
    private final IdentityHashMap known = new IdentityHashMap();
    private int dotted = DOTTED_MAX;

    Fields of(Node object) {
      Fields found = (Fields) known.get(object);
      if (found == null) {
        found = new Fields(object, this);
        known.put(object, found);
      }
      return found;
    }

    void compare(int names) {
      dotted -= names;
      if (dotted < 0) {
        throw new Unfit();
      }
    }

    /** Drops what was removed; places are others then. */
    void drop() {
      for (Iterator all = known.values().iterator(); all.hasNext(); ) {
        ((Fields) all.next()).drop();
      }
      known.clear();
    }
  }

  /** Where an object has its names. A search for each path of an update would be the square of their number. */
  private static final class Fields {
    /** So many searches cost no more than it does to know all names. */
    private static final int SEARCHES_MAX = 4;
    private static final Integer TWICE = Integer.valueOf(-2);

    private final Node object;
    private final Places all;
    private int searches = 0;
    private HashMap places = null;
    private ArrayList dotted = null;
    private BitSet gone = null;
    private int first = 0;

    Fields(Node object, Places all) {
      this.object = object;
      this.all = all;
    }

    /** Whether the object is one value in Extended JSON, which no path leads into. */
    boolean isValue() {
      while (gone != null && gone.get(first)) {
        first++;
      }
      return first < object.size() && VALUES.indexOf(" " + object.name(first) + " ") >= 0;
    }

    /** Where the name at a place of a path is; -1 where there is none. */
    int place(String[] path, int depth) {
      if (isValue()) {
        throw new Unfit();
      }
      if (places == null && searches++ < SEARCHES_MAX) {
        return searched(path, depth);
      }
      if (places == null) {
        index();
      }
      for (int at = 0; at < dotted.size(); at++) {
        check((String) dotted.get(at), path, depth);
      }
      all.compare(dotted.size());
      Integer found = (Integer) places.get(path[depth]);
      if (found == TWICE) {
        throw new Unfit();
      }
      return found == null ? -1 : found.intValue();
    }

    private int searched(String[] path, int depth) {
      int found = -1;
      for (int at = 0; at < object.size(); at++) {
        String name = object.name(at);
        if (gone != null && gone.get(at)) {
          continue;
        }
        if (name.equals(path[depth])) {
          if (found >= 0) {
            throw new Unfit();
          }
          found = at;
        } else if (name.indexOf('.') >= 0) {
          check(name, path, depth);
        }
      }
      return found;
    }

    private void index() {
      places = new HashMap();
      dotted = new ArrayList();
      for (int at = 0; at < object.size(); at++) {
        String name = object.name(at);
        if (gone != null && gone.get(at)) {
          continue;
        }
        if (name.indexOf('.') >= 0) {
          dotted.add(name);
        }
        if (places.put(name, Integer.valueOf(at)) != null) {
          places.put(name, TWICE);
        }
      }
    }

    /** The name of one field may be meant, or that of a field in a field: the path does not tell. */
    private static void check(String name, String[] path, int depth) {
      int at = 0;
      for (int step = depth; step < path.length; step++) {
        if (!name.startsWith(path[step], at)) {
          return;
        }
        at += path[step].length();
        if (at == name.length()) {
          throw new Unfit();
        }
        if (name.charAt(at) != '.') {
          return;
        }
        at++;
      }
    }

    void add(String name, Node value) {
      object.add(name, value);
      if (places != null) {
        places.put(name, Integer.valueOf(object.size() - 1));
      }
    }

    void remove(int place) {
      if (gone == null) {
        gone = new BitSet();
      }
      gone.set(place);
      if (places != null) {
        places.remove(object.name(place));
      }
    }

    void drop() {
      if (gone != null) {
        object.remove(gone);
      }
    }
  }

  /** Reads JSON. Between names, values and commas it keeps the blanks of the outermost object's first ones. */
  private static final class Text {
    private final String text;
    private int at = 0;
    String afterColon = null;
    String afterComma = null;

    Text(String text) {
      this.text = text;
    }

    /** The one object that the text is. */
    Node whole() {
      blanks();
      Node found = value(0);
      blanks();
      if (found.kind != Node.OBJECT || at != text.length()) {
        throw new Unfit();
      }
      afterColon = afterColon == null ? " " : afterColon;
      afterComma = afterComma == null ? "" : afterComma;
      return found;
    }

    private Node value(int depth) {
      char first = peek();
      if (depth > DEPTH_MAX) {
        throw new Unfit();
      }
      if (first == '{' || first == '[') {
        return nested(first == '{', depth);
      }
      int start = at;
      if (first == '"') {
        string();
        return Node.leaf(text.substring(start, at));
      }
      while (at < text.length() && "+-.0123456789abcdefghijklmnopqrstuvwxyzE".indexOf(text.charAt(at)) >= 0) {
        at++;
      }
      if (at == start) {
        throw new Unfit();
      }
      return Node.leaf(text.substring(start, at));
    }

    private Node nested(boolean isObject, int depth) {
      Node found = Node.nested(isObject);
      char end = isObject ? '}' : ']';
      at++;
      blanks();
      if (peek() == end) {
        at++;
        return found;
      }
      while (true) {
        String name = null;
        String spelling = null;
        if (isObject) {
          int start = at;
          name = string();
          spelling = text.substring(start, at);
          blanks();
          take(':');
          String blank = blanks();
          afterColon = afterColon == null ? blank : afterColon;
        }
        found.add(name, spelling, value(depth + 1));
        blanks();
        if (peek() == end) {
          at++;
          return found;
        }
        take(',');
        String blank = blanks();
        if (depth == 0 && afterComma == null) {
          afterComma = blank;
        }
      }
    }

    String string() {
      take('"');
      int start = at;
      StringBuilder found = null;
      while (peek() != '"') {
        char one = text.charAt(at++);
        if (one < ' ') {
          throw new Unfit();
        }
        if (one == '\\') {
          found = found == null ? new StringBuilder(text.substring(start, at - 1)) : found;
          found.append(escaped());
        } else if (found != null) {
          found.append(one);
        }
      }
      at++;
      return found == null ? text.substring(start, at - 1) : found.toString();
    }

    private char escaped() {
      char one = peek();
      at++;
      int place = "\"\\/bfnrt".indexOf(one);
      if (place >= 0) {
        return "\"\\/\b\f\n\r\t".charAt(place);
      }
      if (one != 'u' || at + 4 > text.length()) {
        throw new Unfit();
      }
      int found = 0;
      for (int end = at + 4; at < end; at++) {
        int digit = Character.digit(text.charAt(at), 16);
        if (digit < 0) {
          throw new Unfit();
        }
        found = found * 16 + digit;
      }
      return (char) found;
    }

    private char peek() {
      if (at >= text.length()) {
        throw new Unfit();
      }
      return text.charAt(at);
    }

    private void take(char wanted) {
      if (peek() != wanted) {
        throw new Unfit();
      }
      at++;
    }

    private String blanks() {
      int start = at;
      while (at < text.length() && " \n\r\t".indexOf(text.charAt(at)) >= 0) {
        at++;
      }
      return text.substring(start, at);
    }
  }
}
