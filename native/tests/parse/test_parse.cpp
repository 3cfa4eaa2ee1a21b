// Random and mutated bytes through every format. Each block lies in memory of exactly its size, so that under
// AddressSanitizer a read of one byte too many ends the test. Standalone: exits 0 when all is well.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <stdexcept>
#include <string>

#include "parse/parser.h"

using namespace clickline::base;
using namespace clickline::parse;

namespace {

int failures = 0;
#define EXPECT(condition)                                                          \
  do {                                                                             \
    if (!(condition)) ++failures, std::printf("%d: %s\n", __LINE__, #condition);   \
  } while (0)

std::mt19937_64 rng(7);   // NOLINT: the same every time, so that a failure can be repeated
size_t below(size_t n) { return rng() % n; }

std::string numbered(const char *prefix, int i) { return std::string(prefix).append(std::to_string(i)); }

ParserSpec spec_of(const std::string &format, bool raw_keys) {
  ParserSpec spec;
  spec.format = format, spec.raw_keys = raw_keys, spec.delimiter = ",";
  spec.labels = {format == "elasticctr" ? "click" : "label"};
  const std::string separator = format == "criteo" ? "" : "|";
  for (int i = 1; i <= (format == "criteo" ? 26 : 5); ++i)
    spec.slots.push_back({numbered("C", i), numbered("C", i), "none", separator, 3, i % 2 == 0});
  if (!raw_keys)
    for (int i = 1; i <= 3; ++i)
      spec.slots.push_back({numbered("I", i), numbered("I", i), "log", separator, 1000, false});
  const char *ways[] = {"none", "log1p", "standard", "minmax", "criteo"};
  for (int i = 1; i <= 5; ++i) spec.dense.push_back({numbered("I", i), numbered("I", i), 1, ways[i - 1], 1.5, 2.0, -1});
  if (format == "slots") spec.dense.push_back({"vector", "vector", 4, "none", 0, 1, 0});
  spec.group = "C1";
  if (format == "csv") spec.columns = {"label", "I1", "I2", "I3", "I4", "I5", "C1", "C2", "C3", "C4", "C5", "unused"};
  return spec;
}

std::string value() {
  static const char *values[] = {
      "", "0", "1", "-1", "3", "17", "123456", "99999999", "123456789", "18446744073709551615", "18446744073709551616",
      "1.5", "-0", "1e308", "1e999", "nan", "inf", "abcdef01", "68fd1e64", "\"q\"", "\"a,\"\"b\"", "\"", "a|b||c",
      "x:y", "\xff\xfe", "ü", "a b", "\r", "-", "+5", " 7 "};
  return values[below(std::size(values))];
}

std::string line(const std::string &format) {
  std::string out;
  if (format == "criteo" || format == "csv") {
    const char cut = format == "criteo" ? '\t' : ',';
    const size_t fields = (format == "criteo" ? 40 : 12) + (below(8) ? 0 : below(3) - 1);
    const size_t odds = below(2) ? 4 : 100;
    for (size_t i = 0; i < fields; ++i) {
      if (i) out += cut;
      out += !i ? "1" : !below(odds) ? value() : below(2) ? "5" : "12345678";
    }
  } else {
    if (format == "elasticctr") out = below(9) ? "1 0" : value();
    else if (below(9)) out = "label:1";
    for (size_t i = below(12); i; --i) {
      const std::string name = below(3) ? numbered(below(2) ? "C" : "I", static_cast<int>(below(7))) : "vector";
      const std::string text = below(3) ? "12" : value();
      out += " " + (format == "slots" ? name + ":" + text : text + ":" + name);
    }
  }
  return out + (below(10) ? "\n" : below(2) ? "\r\n" : "");
}

std::string block(const std::string &format) {
  std::string out;
  for (size_t i = below(30); i; --i) out += line(format);
  for (size_t i = below(3) ? 0 : below(20); i && !out.empty(); --i) {   // mutate
    const size_t at = below(out.size());
    static const char special[] = "\t\n\r \",:|\0-0.e9";
    switch (below(4)) {
      case 0: out[at] = special[below(sizeof special)]; break;
      case 1: out[at] = static_cast<char>(below(256)); break;
      case 2: out.erase(at, 1 + below(40)); break;
      default: out.insert(at, 1 + below(70), special[below(sizeof special)]); break;
    }
  }
  if (!below(50)) out.insert(below(out.size() + 1), 100'000, static_cast<char>(below(256)));   // a very long line
  return out;
}

// What every result must be, whatever the input.
void check(const ParsedRows &parsed, const Layout &layout, size_t lines) {
  EXPECT(parsed.lines == lines);
  EXPECT(parsed.n + parsed.bad <= parsed.lines);
  EXPECT(parsed.errors.size() == std::min<size_t>(parsed.bad, 10));
  const size_t cells = parsed.n * layout.slots.size();
  EXPECT(parsed.ragged ? parsed.keys_count > cells : parsed.keys_count == cells);
  if (parsed.ragged) {
    EXPECT(parsed.offsets[0] == 0 && parsed.offsets[cells] == static_cast<int64_t>(parsed.keys_count));
    for (size_t i = 0; i < cells; ++i) {
      const int64_t count = parsed.offsets[i + 1] - parsed.offsets[i];
      EXPECT(count >= 1 && count <= layout.slots[i % layout.slots.size()].max_values);
    }
  }
  uint64_t keys = 0;
  for (size_t i = 0; i < parsed.keys_count; ++i) keys ^= parsed.keys[i];   // so that a sanitizer sees each
  for (size_t i = 0; i < parsed.n; ++i) {
    EXPECT(layout.numeric_labels ? std::isfinite(parsed.labels[i]) : parsed.labels[i] == 0 || parsed.labels[i] == 1);
    if (parsed.groups.data()) keys ^= parsed.groups[i];
  }
  for (size_t i = 0; i < parsed.n * layout.dense_width; ++i) EXPECT(std::isfinite(parsed.dense[i]));
  for (const uint64_t missing : parsed.missing_slots) EXPECT(missing <= parsed.n);
  if (keys == 42) std::printf("unlikely\n");
}

void fuzz_text(const std::string &format, int blocks) {
  for (const bool raw_keys : {false, true}) {
    ParserSpec spec = spec_of(format, raw_keys);
    spec.numeric_labels = raw_keys;   // each kind of label, without further rounds
    const Parser parser(spec);
    size_t rows = 0;
    for (int i = 0; i < blocks; ++i) {
      const std::string text = block(format);
      size_t lines = !text.empty() && text.back() != '\n';
      for (const char c : text) lines += c == '\n';
      char *exact = static_cast<char *>(std::malloc(text.size()));
      if (!text.empty()) std::memcpy(exact, text.data(), text.size());
      const ParsedRows parsed = parser.parse({exact, text.size()});
      check(parsed, parser.layout(), lines);
      rows += parsed.n;
      std::free(exact);
    }
    EXPECT(rows > 0);   // else only the complaints were tested
  }
}

// Columns whose buffers lie: each must be refused, or read within bounds.
void fuzz_columns(int batches) {
  ParserSpec spec = spec_of("columns", false);
  spec.group = "";
  const Parser parser(spec);
  for (int i = 0; i < batches; ++i) {
    const size_t rows = below(20);
    std::vector<ArrowColumn> columns;
    std::vector<char *> owned;
    const auto buffer = [&](size_t size, bool zero) {
      char *exact = static_cast<char *>(std::malloc(size));
      for (size_t at = 0; at < size; ++at)
        exact[at] = zero || below(3) ? 0 : static_cast<char>(below(below(2) ? 256 : 4));
      owned.push_back(exact);
      return Bytes{exact, size};
    };
    for (const Column &column : parser.layout().columns) {
      ArrowColumn &c = columns.emplace_back();
      c.name = column.name, c.kind = static_cast<ArrowType>(below(7));
      c.offset = below(3), c.length = below(9) ? rows : below(30);
      if (below(2)) c.validity = buffer(below(6), false);
      c.starts = buffer(below(9) ? (rows + 5) * 8 : below(100), below(2));
      c.values = buffer(below(9) ? (rows + 5) * 8 : below(100), below(2));
      if (below(3)) continue;
      c.listed = true, c.list_offset = below(3);
      if (below(2)) c.list_validity = buffer(below(6), false);
      c.list_starts = buffer(below(9) ? (rows + 5) * 8 : below(100), below(2));
    }
    try {
      check(parser.parse_columns(rows, columns), parser.layout(), rows);
    } catch (const std::invalid_argument &) {
    }
    for (char *exact : owned) std::free(exact);
  }
}

void long_line() {   // longer than any piece, and than the index made for it at first
  const Parser parser(spec_of("csv", false));
  std::string text = "1,1,2,3,4,5," + std::string(3'000'000, 'x') + ",b,c,d,e,f\n1,1,2,3,4,5,a,b,c,d,e,f";
  const ParsedRows parsed = parser.parse(text);
  EXPECT(parsed.n == 2 && parsed.bad == 0);
  EXPECT(parsed.keys[0] == feature_key(slot_seed("C1"), std::string(3'000'000, 'x')));
}

void labels() {
  ParserSpec spec = spec_of("slots", false);
  const std::string text = "label:1\nlabel:-2.5\nlabel:4e38\nlabel:1e-3\nlabel:x\nlabel:nan\n";
  const ParsedRows clicks = Parser(spec).parse(text);
  EXPECT(clicks.n == 1 && clicks.bad == 5);
  EXPECT(clicks.errors[0].second == "label 'label' must be 0 or 1, got '-2.5'");
  spec.numeric_labels = true;
  const ParsedRows numbers = Parser(spec).parse(text);
  EXPECT(numbers.n == 3 && numbers.bad == 3);   // 4e38 does not fit into 32 bits
  EXPECT(numbers.labels[0] == 1 && numbers.labels[1] == -2.5f && numbers.labels[2] == 1e-3f);
  EXPECT(numbers.errors[1].second == "label 'label' must be a finite number of 32 bits, got 'x'");
}

}  // namespace

int main() {
  for (const char *format : {"criteo", "slots", "elasticctr", "csv"}) fuzz_text(format, 2000);
  fuzz_columns(20'000);
  long_line();
  labels();
  std::printf("%d failures\n", failures);
  return failures != 0;
}
