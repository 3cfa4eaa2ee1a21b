// Construction, and the choice of format.
#include <algorithm>
#include <stdexcept>

#include "parse/parser.h"

namespace clickline::parse {

namespace {

Format format_of(const std::string &name) {
  if (name == "criteo") return Format::criteo;
  if (name == "slots") return Format::slots;
  if (name == "elasticctr") return Format::elasticctr;
  if (name == "csv") return Format::csv;
  if (name == "columns") return Format::columns;
  throw std::invalid_argument("format must be criteo, slots, elasticctr, csv or columns, got " + quoted(name));
}

std::vector<std::string> criteo_columns() {
  std::vector<std::string> names = {"label"};
  for (int i = 1; i <= 13; ++i) names.push_back(std::string("I").append(std::to_string(i)));
  for (int i = 1; i <= 26; ++i) names.push_back(std::string("C").append(std::to_string(i)));
  return names;
}

std::string listed(const std::vector<std::string> &names) {
  static constexpr size_t kShown = 100;
  std::string out;
  for (size_t i = 0; i < std::min(names.size(), kShown); ++i) out += (i ? ", " : "") + names[i];
  if (names.size() > kShown) out += ", … (" + std::to_string(names.size()) + " in all)";
  return out;
}

}  // namespace

Parser::Parser(const ParserSpec &spec) : format_(format_of(spec.format)), layout_(spec) {
  if (format_ == Format::criteo) {
    place_fields(criteo_columns());
    prepare_criteo();
  } else if (format_ == Format::csv) {
    if (spec.delimiter.size() != 1 || std::string_view("\n\r\"").find(spec.delimiter[0]) != std::string_view::npos)
      throw std::invalid_argument("delimiter must be one ASCII character other than a quote or a line break, got " +
                                  quoted(spec.delimiter));
    delimiter_ = spec.delimiter[0];
    place_fields(spec.columns);
  } else if (format_ == Format::elasticctr) {
    if (layout_.labels.size() > 1 || (layout_.labels.size() == 1 && layout_.labels[0] != "click"))
      throw std::invalid_argument("the elasticctr format has one label, click; got " + listed(layout_.labels));
  } else if (format_ == Format::columns && !spec.columns.empty()) {
    place_fields(spec.columns);
  }
  for (const std::string &name : spec.columns)
    if (!layout_.columns.empty() && !layout_.find(name)) unused_.push_back(name);
}

void Parser::place_fields(const std::vector<std::string> &columns) {
  width_ = static_cast<uint32_t>(columns.size());
  for (const Column &column : layout_.columns) {
    const auto found = std::find(columns.begin(), columns.end(), column.name);
    if (found == columns.end())
      throw std::invalid_argument("no column " + quoted(column.name) + " in the data; known columns: " +
                                  (columns.empty() ? "none" : listed(columns)));
    if (std::find(found + 1, columns.end(), column.name) != columns.end())
      throw std::invalid_argument("column " + quoted(column.name) + " is in the data more than once; columns: " +
                                  listed(columns));
    fields_.push_back({static_cast<uint32_t>(found - columns.begin()), &column});
  }
  std::sort(fields_.begin(), fields_.end(), [](const Field &a, const Field &b) { return a.at < b.at; });
}

ParsedRows Parser::parse(std::string_view lines) const {
  switch (format_) {
    case Format::criteo: return parse_criteo(lines);
    case Format::slots: return parse_slots(lines);
    case Format::elasticctr: return parse_elasticctr(lines);
    case Format::csv: return parse_csv(lines);
    case Format::columns: break;
  }
  throw std::invalid_argument("a parser of columns has no text to parse; use parse_columns");
}

}  // namespace clickline::parse
