// Slot text, as PaddleRec reads it: `name:value` separated by blanks, in any order. A name may occur several
// times (several values, or the numbers of one dense feature); names that the job does not use are ignored.
#include "parse/parser.h"
#include "parse/scan.h"
#include "parse/tokens.h"

namespace clickline::parse {

ParsedRows Parser::parse_slots(std::string_view data) const {
  RowBuilder rows(layout_, count_lines(data));
  while (!data.empty()) {
    std::string_view line = take_line(data);
    std::string_view token = take_token(line);
    if (token.empty()) {
      rows.blank();
      continue;
    }
    rows.begin();
    for (; !token.empty(); token = take_token(line)) {
      const size_t colon = token.find(':');
      if (colon == std::string_view::npos) {
        rows.fail("expected name:value, got " + quoted(token));
        break;
      }
      const Column *column = layout_.find(token.substr(0, colon));
      if (column && !rows.take(*column, token.substr(colon + 1))) break;
    }
    rows.finish();
  }
  return rows.done();
}

}  // namespace clickline::parse
