package cdcm;

import java.io.Serializable;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.CodingErrorAction;
import java.nio.charset.StandardCharsets;
import java.time.DateTimeException;
import java.time.LocalDate;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.api.java.UDF1;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.types.DataTypes;

/**
 * Writes a Protobuf message as the Avro datum that says the same; NULL for bytes that are not what their schema says.
 *
 * What is read and in which order it is written stands in a program of lines (see `protobuf.py`, which makes it): the
 * first says how the message begins, each further one is a message's fields or an enum's values, and the first of those
 * is the message itself. Janino compiles this file: no lambdas, no type inference.
 */
public final class ProtobufToAvro implements UDF1, Serializable {
  private static final long serialVersionUID = 1L;
  /** How large a datum may become, how many fields all messages in it may have, and how deep they may stand. */
  private static final int LENGTH_MAX = 128 << 20;
  private static final int SLOTS_MAX = 16 << 20;
  private static final int DEPTH_MAX = 100;
  private static final int SCALE_MAX = 1000;
  private static final long NANOS = 1000000000L;
  /** A day that is none; no calendar has it (`times.date`). */
  private static final int NO_DAY = Integer.MIN_VALUE;
  private static final int VARINT = 0;
  private static final int EIGHT = 1;
  private static final int LENGTH = 2;
  private static final int FOUR = 5;
  private static final int DIRECT = 4096;

  private final String program;
  private transient volatile Program parsed;

  public ProtobufToAvro(String program) {
    this.program = program;
  }

  /** The data of a column of messages. */
  public Column of(Column messages) {
    return functions.udf((UDF1) this, DataTypes.BinaryType).apply(new Column[] {messages});
  }

  public Object call(Object given) {
    if (given == null) {
      return null;
    }
    if (parsed == null) {
      parsed = new Program(program);
    }
    Program known = parsed;
    byte[] octets = (byte[]) given;
    try {
      int begin = known.begin(octets);
      Datum datum = new Datum(known);
      Object[] message = datum.read(octets, begin, octets.length, known.root, null, 0);
      datum.write(message, known.root, octets);
      return datum.bytes();
    } catch (Damaged damaged) {
      return null;
    }
  }

  /** Raised for bytes that are not what their schema says. It says nothing of them, and costs no stack trace. */
  private static final class Damaged extends RuntimeException {
    private static final long serialVersionUID = 1L;

    Damaged() {
      super(null, null, false, false);
    }
  }

  private static final class Field {
    int number;
    char kind;
    /** r: its default where it is absent; o: NULL; q: has to be there; a: array; p: map; k: pairs of a map. */
    char mode;
    int type;
    int choice;
    int at;
    int scale;
  }

  private static final class Type {
    Field[] fields;
    Field[] direct;
    Map byNumber = new HashMap();
    Map symbols;
    byte[] first;

    Field field(int number) {
      return number < direct.length ? direct[number] : (Field) byNumber.get(Integer.valueOf(number));
    }
  }

  private static final class Program {
    final byte[][] begins;
    final Type[] types;
    final Type root;

    Program(String text) {
      String[] lines = text.split("\n");
      String[] spelled = lines[0].split(" ");
      begins = new byte[spelled.length - 1][];
      for (int at = 1; at < spelled.length; at++) {
        begins[at - 1] = new BigInteger("01" + spelled[at], 16).toByteArray();
        begins[at - 1] = Arrays.copyOfRange(begins[at - 1], 1, begins[at - 1].length);
      }
      types = new Type[lines.length - 1];
      for (int at = 1; at < lines.length; at++) {
        types[at - 1] = lines[at].charAt(0) == 'e' ? symbols(lines[at]) : message(lines[at]);
      }
      root = types[0];
    }

    /** Where the message begins, behind what says which one of its file it is. */
    int begin(byte[] octets) {
      if (begins.length == 0) {
        return 0;
      }
      for (int at = 0; at < begins.length; at++) {
        byte[] wanted = begins[at];
        if (octets.length >= wanted.length && Arrays.equals(Arrays.copyOf(octets, wanted.length), wanted)) {
          return wanted.length;
        }
      }
      throw new Damaged();
    }

    private static Type symbols(String line) {
      Type type = new Type();
      type.symbols = new HashMap();
      String[] parts = line.split(" ");
      for (int at = 1; at < parts.length; at++) {
        int equals = parts[at].indexOf('=');
        byte[] name = parts[at].substring(equals + 1).getBytes(StandardCharsets.UTF_8);
        Integer number = Integer.valueOf(parts[at].substring(0, equals));
        if (!type.symbols.containsKey(number)) {
          type.symbols.put(number, name);
        }
        if (at == 1) {
          type.first = name;
        }
      }
      return type;
    }

    private static Type message(String line) {
      Type type = new Type();
      String[] parts = line.split(" ");
      type.fields = new Field[parts.length - 1];
      int most = 0;
      for (int at = 0; at < type.fields.length; at++) {
        String[] told = parts[at + 1].split(",");
        Field field = new Field();
        field.number = Integer.parseInt(told[0]);
        field.kind = told[1].charAt(0);
        field.mode = told[2].charAt(0);
        field.type = Integer.parseInt(told[3]);
        field.choice = Integer.parseInt(told[4]);
        field.scale = Integer.parseInt(told[5]);
        field.at = at;
        type.fields[at] = field;
        most = field.number < DIRECT ? Math.max(most, field.number) : most;
        type.byNumber.put(Integer.valueOf(field.number), field);
      }
      type.direct = new Field[most + 1];
      for (int at = 0; at < type.fields.length; at++) {
        if (type.fields[at].number <= most) {
          type.direct[type.fields[at].number] = type.fields[at];
        }
      }
      return type;
    }
  }

  /** A run of bytes of the message. */
  private static final class Run {
    final int begin;
    final int end;

    Run(int begin, int end) {
      this.begin = begin;
      this.end = end;
    }
  }

  /** One message being read and written. */
  private static final class Datum {
    private final Program program;
    private byte[] out = new byte[512];
    private int length;
    private int slots;
    private byte[] in;
    private int at;

    Datum(Program program) {
      this.program = program;
    }

    byte[] bytes() {
      return Arrays.copyOf(out, length);
    }

    // --- what a message holds: a Long, a Run, an Object[] or a List a field

    Object[] read(byte[] octets, int begin, int end, Type type, Object[] known, int depth) {
      if (depth > DEPTH_MAX) {
        throw new Damaged();
      }
      Object[] found = known == null ? empty(type) : known;
      in = octets;
      at = begin;
      while (at < end) {
        long tag = varint(end);
        int wire = (int) (tag & 7);
        if (tag >>> 3 == 0 || tag >>> 32 != 0) {
          throw new Damaged();
        }
        Field field = type.field((int) (tag >>> 3));
        if (field == null) {
          throw new Damaged();
        }
        boolean many = field.mode == 'a' || field.mode == 'p' || field.mode == 'k';
        if (many && wire == LENGTH && isPacked(field.kind)) {
          int stop = stretch(end);
          while (at < stop) {
            add(found, field, scalar(field.kind, stop));
          }
        } else if (wire != wireOf(field.kind)) {
          throw new Damaged();
        } else if (wire != LENGTH) {
          set(found, type, field, scalar(field.kind, end), many);
        } else if (isMessage(field.kind)) {
          int stop = stretch(end);
          Object before = many ? null : found[field.at];
          Object inner = read(octets, at, stop, program.types[field.type], (Object[]) before, depth + 1);
          at = stop;
          set(found, type, field, inner, many);
        } else {
          int stop = stretch(end);
          Run run = new Run(at, stop);
          at = stop;
          if (field.kind == 't') {
            text(run);
          }
          set(found, type, field, run, many);
        }
      }
      if (at != end) {
        throw new Damaged();
      }
      return found;
    }

    private Object[] empty(Type type) {
      slots += 1 + type.fields.length;
      if (slots > SLOTS_MAX) {
        throw new Damaged();
      }
      return new Object[type.fields.length];
    }

    private void set(Object[] found, Type type, Field field, Object value, boolean many) {
      if (many) {
        add(found, field, value);
        return;
      }
      if (field.choice >= 0) {
        for (int other = 0; other < type.fields.length; other++) {
          if (type.fields[other].choice == field.choice) {
            found[other] = null;
          }
        }
      }
      found[field.at] = value;
    }

    private void add(Object[] found, Field field, Object value) {
      slots += 1;
      if (slots > SLOTS_MAX) {
        throw new Damaged();
      }
      if (found[field.at] == null) {
        found[field.at] = new ArrayList();
      }
      ((List) found[field.at]).add(value);
    }

    private static boolean isMessage(char kind) {
      return "mTEDOKNw".indexOf(kind) >= 0;
    }

    private static boolean isPacked(char kind) {
      return "to".indexOf(kind) < 0 && !isMessage(kind);
    }

    private static int wireOf(char kind) {
      if ("dXY".indexOf(kind) >= 0) {
        return EIGHT;
      }
      if ("fxy".indexOf(kind) >= 0) {
        return FOUR;
      }
      return isPacked(kind) ? VARINT : LENGTH;
    }

    private Long scalar(char kind, int end) {
      switch (kind) {
        case 'd':
        case 'X':
        case 'Y':
          return Long.valueOf(fixed(8, end));
        case 'f':
        case 'y':
          return Long.valueOf((int) fixed(4, end));
        case 'x':
          return Long.valueOf(fixed(4, end));
        case 'i':
        case 'e':
          return Long.valueOf((int) varint(end));
        case 'u':
          return Long.valueOf(varint(end) & 0xffffffffL);
        case 's':
          long small = varint(end) & 0xffffffffL;
          return Long.valueOf((int) ((small >>> 1) ^ -(small & 1)));
        case 'S':
          long large = varint(end);
          return Long.valueOf((large >>> 1) ^ -(large & 1));
        case 'b':
          return Long.valueOf(varint(end) == 0 ? 0 : 1);
        default:
          return Long.valueOf(varint(end));
      }
    }

    private long varint(int end) {
      long value = 0;
      for (int shift = 0; shift < 70; shift += 7) {
        if (at >= end) {
          throw new Damaged();
        }
        byte next = in[at++];
        value |= (long) (next & 0x7f) << shift;
        if (next >= 0) {
          return value;
        }
      }
      throw new Damaged();
    }

    private long fixed(int size, int end) {
      if (end - at < size) {
        throw new Damaged();
      }
      long value = 0;
      for (int byteAt = 0; byteAt < size; byteAt++) {
        value |= (in[at + byteAt] & 0xffL) << (8 * byteAt);
      }
      at += size;
      return value;
    }

    /** Where a run of bytes ends whose length is read first. */
    private int stretch(int end) {
      long size = varint(end);
      if (size < 0 || size > end - at) {
        throw new Damaged();
      }
      return at + (int) size;
    }

    private void text(Run run) {
      boolean plain = true;
      for (int here = run.begin; here < run.end && plain; here++) {
        plain = in[here] >= 0;
      }
      if (plain) {
        return;
      }
      try {
        StandardCharsets.UTF_8
            .newDecoder()
            .onMalformedInput(CodingErrorAction.REPORT)
            .onUnmappableCharacter(CodingErrorAction.REPORT)
            .decode(ByteBuffer.wrap(in, run.begin, run.end - run.begin));
        return;
      } catch (CharacterCodingException error) {
        throw new Damaged();
      }
    }

    // --- the same as an Avro datum

    void write(Object[] message, Type type, byte[] octets) {
      in = octets;
      for (int index = 0; index < type.fields.length; index++) {
        field(type.fields[index], message[index]);
      }
    }

    private void field(Field field, Object given) {
      switch (field.mode) {
        case 'o':
          number(given == null ? 0 : 1);
          if (given != null) {
            value(field, given);
          }
          return;
        case 'q':
          if (given == null) {
            throw new Damaged();
          }
          value(field, given);
          return;
        case 'a':
          array(field, (List) given);
          return;
        case 'p':
        case 'k':
          entries(field, (List) given);
          return;
        default:
          value(field, given);
      }
    }

    private void array(Field field, List items) {
      if (items != null) {
        number(items.size());
        for (int index = 0; index < items.size(); index++) {
          value(field, items.get(index));
        }
      }
      number(0);
    }

    /** A map's entries; of those with one key the last. */
    private void entries(Field field, List items) {
      if (items != null) {
        Type entry = program.types[field.type];
        Map last = new LinkedHashMap();
        for (int index = 0; index < items.size(); index++) {
          Object[] pair = (Object[]) items.get(index);
          Object key = pair[0] instanceof Run ? ByteBuffer.wrap(in, ((Run) pair[0]).begin, size((Run) pair[0])) : pair[0];
          last.put(key == null ? "" : key, pair);
        }
        number(last.size());
        Object[] pairs = last.values().toArray();
        for (int index = 0; index < pairs.length; index++) {
          Object[] pair = (Object[]) pairs[index];
          value(entry.fields[0], pair[0]);
          field(entry.fields[1], pair[1]);
        }
      }
      number(0);
    }

    private static int size(Run run) {
      return run.end - run.begin;
    }

    /** A value, or its type's default for null. */
    private void value(Field field, Object given) {
      switch (field.kind) {
        case 'd':
          little(plain(given), 8);
          return;
        case 'f':
          little(plain(given), 4);
          return;
        case 'b':
          room(1);
          out[length++] = (byte) plain(given);
          return;
        case 't':
        case 'o':
          if (given == null) {
            number(0);
          } else {
            octets(in, ((Run) given).begin, size((Run) given));
          }
          return;
        case 'e':
          Type symbols = program.types[field.type];
          Object symbol = given == null ? symbols.first : symbols.symbols.get(Integer.valueOf((int) plain(given)));
          if (symbol == null) {
            throw new Damaged();
          }
          octets((byte[]) symbol, 0, ((byte[]) symbol).length);
          return;
        case 'm':
        case 'T':
        case 'E':
        case 'D':
        case 'O':
        case 'K':
        case 'N':
        case 'w':
          Type type = program.types[field.type];
          message(field, type, given == null ? empty(type) : (Object[]) given);
          return;
        default:
          number(plain(given));
      }
    }

    private static long plain(Object given) {
      return given == null ? 0 : ((Long) given).longValue();
    }

    private void message(Field field, Type type, Object[] parts) {
      switch (field.kind) {
        case 'E':
          whole(plain(parts[1]));
          number(micros(plain(parts[0]), plain(parts[1])));
          return;
        case 'T':
          number(micros(plain(parts[0]), plain(parts[1])));
          return;
        case 'D':
          number(day(plain(parts[0]), plain(parts[1]), plain(parts[2])));
          return;
        case 'K':
          whole(plain(parts[3]));
          number(clock(plain(parts[0]), plain(parts[1]), plain(parts[2]), plain(parts[3])));
          return;
        case 'O':
          number(clock(plain(parts[0]), plain(parts[1]), plain(parts[2]), plain(parts[3])));
          return;
        case 'N':
          decimal(field.scale, parts);
          return;
        case 'w':
          value(type.fields[0], parts[0]);
          return;
        default:
          for (int index = 0; index < type.fields.length; index++) {
            field(type.fields[index], parts[index]);
          }
      }
    }

    /** Of a key nothing is cut: two would become one. */
    private static void whole(long nanos) {
      if (nanos % 1000 != 0) {
        throw new Damaged();
      }
    }

    /** Seconds and billionths of them as microseconds; the farthest there are for those beyond. */
    private static long micros(long seconds, long nanos) {
      if (nanos < 0 || nanos >= NANOS) {
        throw new Damaged();
      }
      if (seconds > Long.MAX_VALUE / 1000000 - 1 || seconds < Long.MIN_VALUE / 1000000 + 1) {
        return seconds > 0 ? Long.MAX_VALUE : Long.MIN_VALUE;
      }
      return seconds * 1000000 + nanos / 1000;
    }

    private static long day(long year, long month, long day) {
      try {
        return year < 1 || year > 9999 ? NO_DAY : LocalDate.of((int) year, (int) month, (int) day).toEpochDay();
      } catch (DateTimeException error) {
        return NO_DAY;
      }
    }

    private static long clock(long hours, long minutes, long seconds, long nanos) {
      boolean known = hours >= 0 && hours <= 24 && minutes >= 0 && minutes < 60 && seconds >= 0 && seconds <= 60;
      if (!known || nanos < 0 || nanos >= NANOS) {
        throw new Damaged();
      }
      return ((hours * 60 + minutes) * 60 + seconds) * 1000000 + nanos / 1000;
    }

    /** A decimal's unscaled bytes in its column's scale, which its own scale may differ from. */
    private void decimal(int scale, Object[] parts) {
      long own = plain(parts[1]);
      Run run = (Run) parts[0];
      if (run == null || size(run) == 0) {
        throw new Damaged();
      }
      if (own == scale) {
        octets(in, run.begin, size(run));
        return;
      }
      if (own < -SCALE_MAX || own > SCALE_MAX || size(run) > SCALE_MAX) {
        throw new Damaged();
      }
      try {
        BigInteger unscaled = new BigInteger(Arrays.copyOfRange(in, run.begin, run.end));
        byte[] exact = new BigDecimal(unscaled, (int) own).setScale(scale).unscaledValue().toByteArray();
        octets(exact, 0, exact.length);
      } catch (ArithmeticException error) {
        throw new Damaged();
      }
    }

    private void octets(byte[] from, int begin, int size) {
      number(size);
      room(size);
      System.arraycopy(from, begin, out, length, size);
      length += size;
    }

    /** Avro's int or long: a zigzag varint. */
    private void number(long given) {
      room(10);
      long left = (given << 1) ^ (given >> 63);
      while ((left & ~0x7fL) != 0) {
        out[length++] = (byte) (left & 0x7f | 0x80);
        left >>>= 7;
      }
      out[length++] = (byte) left;
    }

    private void little(long bits, int size) {
      room(size);
      for (int byteAt = 0; byteAt < size; byteAt++) {
        out[length++] = (byte) (bits >>> (8 * byteAt));
      }
    }

    private void room(int size) {
      if (size > LENGTH_MAX - length) {
        throw new Damaged();
      }
      if (length + size > out.length) {
        out = Arrays.copyOf(out, (int) Math.min(LENGTH_MAX, Math.max((long) length + size, 2L * out.length)));
      }
    }
  }
}
