// Named columns separated by one character, quoted as RFC 4180 has it, one row per line: a quoted field may hold
// the delimiter and doubled quotes, but no line break (lines could then not be handed to threads unseen).
#include <algorithm>
#include <cstring>

#include "parse/parser.h"
#include "parse/scan.h"

namespace clickline::parse {

namespace {

// The fields of a line with quotes. Those with doubled quotes are written anew into `unescaped`.
class QuotedLine {
 public:
  std::vector<std::string_view> fields;
  const char *problem = nullptr;

  void split(std::string_view line, char delimiter) {
    fields.clear();
    unescaped_.clear();
    unescaped_.reserve(line.size());   // so that views into it stay valid
    problem = nullptr;
    for (size_t at = 0;;) {
      size_t end;
      if (at < line.size() && line[at] == '"') {
        if (!take_quoted(line, at + 1, end)) return;
        if (end < line.size() && line[end] != delimiter) {
          problem = "text after the closing quote of a field";
          return;
        }
      } else {
        end = std::min(line.find(delimiter, at), line.size());
        fields.push_back(line.substr(at, end - at));
      }
      if (end == line.size()) return;
      at = end + 1;
    }
  }

 private:
  bool take_quoted(std::string_view line, size_t at, size_t &end) {
    const size_t first = unescaped_.size();
    for (;;) {
      const size_t quote = line.find('"', at);
      if (quote == std::string_view::npos) {
        problem = "a quoted field does not end on its line (line breaks inside quotes are not supported)";
        return false;
      }
      unescaped_.append(line, at, quote - at);
      if (quote + 1 == line.size() || line[quote + 1] != '"') {
        fields.push_back(std::string_view(unescaped_).substr(first));
        end = quote + 1;
        return true;
      }
      unescaped_ += '"';
      at = quote + 2;
    }
  }

  std::string unescaped_;
};

}  // namespace

ParsedRows Parser::parse_csv(std::string_view data) const {
  RowBuilder rows(layout_, std::min(count_lines(data), data.size() / std::max(width_ - 1, 1u) + 1));
  SeparatorIndex index;
  QuotedLine quoted_line;
  const auto wrong_count = [&](size_t fields) {
    rows.fail("a line needs " + std::to_string(width_) + " fields separated by " + quoted({&delimiter_, 1}) +
              ", got " + std::to_string(fields));
  };
  while (!data.empty()) {
    const std::string_view piece = take_piece(data, kPiece);
    index.build(piece, delimiter_);
    const bool quotes = std::memchr(piece.data(), '"', piece.size());
    uint32_t start = 0, first = 0;
    for (size_t line = 0; line < index.lines; ++line) {
      const uint32_t last = index.line_end[line], *ends = &index.field_end[first];
      const uint32_t begin = start, end = ends[last - first], fields = last - first + 1;
      start = end + 1, first = last + 1;
      const uint32_t stop = end > begin && piece[end - 1] == '\r' ? end - 1 : end;
      if (stop == begin) {
        rows.blank();
        continue;
      }
      rows.begin();
      if (quotes && std::memchr(piece.data() + begin, '"', stop - begin)) {
        quoted_line.split(piece.substr(begin, stop - begin), delimiter_);
        if (quoted_line.problem) {
          rows.fail(quoted_line.problem);
        } else if (quoted_line.fields.size() != width_) {
          wrong_count(quoted_line.fields.size());
        } else {
          for (const Field &field : fields_)
            if (!rows.take(*field.column, quoted_line.fields[field.at])) break;
        }
      } else if (fields != width_) {
        wrong_count(fields);
      } else {
        for (const Field &field : fields_) {
          const uint32_t from = field.at ? ends[field.at - 1] + 1 : begin;
          const uint32_t to = field.at + 1 == width_ ? stop : ends[field.at];
          if (!rows.take(*field.column, piece.substr(from, to - from))) break;
        }
      }
      rows.finish();
    }
  }
  return rows.done();
}

}  // namespace clickline::parse
