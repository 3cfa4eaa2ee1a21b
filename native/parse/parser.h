// Log lines in, arrays out. A Parser knows one job's layout and one format; it never changes after construction,
// so threads share it. Promises: never reads outside the data, never throws for what the data says (a bad row is
// skipped and reported), and the result depends on nothing but the data.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "parse/layout.h"
#include "parse/row_builder.h"

namespace clickline::parse {

enum class Format { criteo, slots, elasticctr, csv, columns };

// A column of an Arrow record batch; buffers as the Arrow columnar format has them. Sizes in bytes are checked.
enum class ArrowType { text32, text64, int64, uint64, float32, float64, boolean };
struct ArrowColumn {
  std::string name;
  ArrowType kind = ArrowType::int64;
  size_t offset = 0, length = 0;     // of the values: the first one's place in the buffers, and how many
  base::Bytes validity, starts, values;   // no validity: none is null; starts: of text only
  bool listed = false;               // whether each row holds a list of values
  size_t list_offset = 0;
  base::Bytes list_validity, list_starts;   // 64-bit starts, counted from the first value
};

class Parser {
 public:
  explicit Parser(const ParserSpec &spec);   // throws std::invalid_argument
  Parser(const Parser &) = delete;           // fields point into the layout
  Parser &operator=(const Parser &) = delete;

  const Layout &layout() const { return layout_; }
  // Columns of the data that nothing is read from.
  const std::vector<std::string> &unused_columns() const { return unused_; }
  ParsedRows parse(std::string_view lines) const;   // whole lines; the last one may lack its line break
  ParsedRows parse_columns(size_t rows, const std::vector<ArrowColumn> &columns) const;

 private:
  struct Field {
    uint32_t at;   // which of the line's fields
    const Column *column;
  };
  struct CriteoSlot {   // what its keys need, side by side in memory
    uint32_t at, slot;
    uint64_t seed, missing_key;
  };
  void place_fields(const std::vector<std::string> &columns);   // criteo, csv
  void prepare_criteo();
  ParsedRows parse_criteo(std::string_view data) const;
  void criteo_row(RowBuilder &rows, const char *piece, const char *readable, uint32_t start, const uint32_t *ends) const;
  ParsedRows parse_csv(std::string_view data) const;
  ParsedRows parse_slots(std::string_view data) const;
  ParsedRows parse_elasticctr(std::string_view data) const;

  Format format_;
  Layout layout_;
  std::vector<std::string> unused_;
  char delimiter_ = '\t';
  uint32_t width_ = 0;                          // fields of a line
  std::vector<Field> fields_;                   // used ones, in the order of the line
  std::vector<Field> criteo_single_;            // labels, weight, time, group
  std::vector<Field> criteo_numbers_;           // fields that are needed as numbers
  std::vector<CriteoSlot> criteo_plain_, criteo_bucketed_;
  std::vector<uint32_t> criteo_dense_;          // field of each dense number
  std::vector<Column> criteo_columns_;          // what criteo_single_ points to
};

}  // namespace clickline::parse
