// ElasticCTR's log: `show click feasign:slot feasign:slot …`. The second word is the label; the first is kept
// only if the job says `weight: show`. Slots that the job does not list are ignored.
#include <algorithm>

#include "parse/parser.h"
#include "parse/scan.h"
#include "parse/tokens.h"

namespace clickline::parse {

ParsedRows Parser::parse_elasticctr(std::string_view data) const {
  RowBuilder rows(layout_, std::min(count_lines(data), data.size() / 3 + 1));   // "1 0" is the shortest row
  const Column show{.name = "show", .uses = {{Purpose::weight, 0}}};
  const Column click{.name = "click", .uses = {{Purpose::label, 0}}};
  const bool weighted = layout_.weight == show.name, labelled = !layout_.labels.empty();
  while (!data.empty()) {
    std::string_view line = take_line(data);
    const std::string_view shows = take_token(line), clicks = take_token(line);
    if (shows.empty()) {
      rows.blank();
      continue;
    }
    rows.begin();
    if (clicks.empty()) {
      rows.fail("expected show, click and feasign:slot pairs, got " + quoted(shows));
      continue;
    }
    if ((labelled && !rows.take(click, clicks)) || (weighted && !rows.take(show, shows))) continue;
    for (std::string_view token = take_token(line); !token.empty(); token = take_token(line)) {
      const size_t colon = token.rfind(':');
      if (colon == std::string_view::npos) {
        rows.fail("expected feasign:slot, got " + quoted(token));
        break;
      }
      const Column *column = layout_.find(token.substr(colon + 1));
      if (column && !rows.take(*column, token.substr(0, colon))) break;
    }
    rows.finish();
  }
  return rows.done();
}

}  // namespace clickline::parse
