// {"instances": [{"slots": [{"slot_name": "101", "feasigns": [5, 17]}]}]}: ElasticCTR's requests, refused in the words
// of its own server where it has any. Its clients pad slots that have no value with the feasign 0, so here 0 is a
// missing value, as a slot is that a line of the log leaves out.
#include <algorithm>
#include <optional>

#include "request/parse_request.h"
#include "request/request_rows.h"

namespace clickline::request {

using parse::quoted;

namespace {

using Json = JsonValue::Kind;

class FeasignReader {
 public:
  FeasignReader(JsonReader &json, RequestRows &rows) : json_(json), rows_(rows) {}

  void instances(size_t most_rows) {
    if (json_.value().kind != Json::array) throw Refused("malformed", "Sample size invalid");
    size_t count = 0;
    for (bool more = json_.first(']'); more; more = json_.next(']'), ++count) {
      if (count == most_rows)
        throw Refused("too_large", "Sample size invalid: more than " + std::to_string(most_rows) + " instances");
      number_ = count;
      rows_.begin();
      const size_t slots = instance();
      rows_.finish();
      if (!count) slots_ = slots;
      if (slots != slots_) throw Refused("wrong_shape", "Req intance has varying slot numbers");
    }
    if (!count) throw Refused("malformed", "Sample size invalid");
  }

 private:
  void open(Json kind, const char *what) {
    const JsonValue opened = json_.value();
    if (opened.kind != kind)
      rows_.refuse("wrong_type", std::string(what) + " must be " + described(kind) + ", got " + described(opened.kind));
  }

  size_t instance() {
    size_t count = 0;
    open(Json::object, "an instance");
    for (bool more = json_.first('}'); more; more = json_.next('}')) {
      if (json_.name() != "slots") {
        json_.skip();
        continue;
      }
      open(Json::array, "slots");
      for (bool inside = json_.first(']'); inside; inside = json_.next(']'), ++count) slot();
    }
    return count;
  }

  void slot() {
    name_.clear(), feasigns_.clear();
    open(Json::object, "a slot");
    for (bool more = json_.first('}'); more; more = json_.next('}')) {
      const std::string_view member = json_.name();
      if (member == "slot_name") name();
      else if (member == "feasigns") feasigns();
      else json_.skip();
    }
    const parse::Column *column;
    try {
      column = rows_.column(name_);
    } catch (const Refused &refused) {
      if (refused.name.empty() && !name_.empty()) throw;
      throw Refused("unknown_feature",
                    "Req instance " + std::to_string(number_) + " has an outlier slot id: " + quoted(name_));
    }
    if (!column) return;
    for (const uint64_t feasign : feasigns_)
      if (feasign) rows_.take(*column, feasign);
  }

  void name() {
    const JsonValue value = json_.value();
    if (value.kind != Json::text && value.kind != Json::whole)
      rows_.refuse("wrong_type", std::string("slot_name must be a text, got ") + described(value.kind));
    name_ = value.text;
  }

  void feasigns() {
    open(Json::array, "feasigns");
    for (bool more = json_.first(']'); more; more = json_.next(']')) {
      const JsonValue value = json_.value();
      uint64_t feasign;   // programs whose numbers have 53 bits send it as text
      if (value.nests() || !parse::parse_key(value.text, feasign))
        rows_.refuse("wrong_type", "feasigns must be integers from 0 to 2^64 - 1, got " +
                                       (value.nests() ? described(value.kind) : quoted(value.text)));
      if (feasigns_.size() == RequestRows::kMostValues)
        rows_.refuse("too_large", "more than " + std::to_string(RequestRows::kMostValues) + " feasigns in a slot");
      feasigns_.push_back(feasign);
    }
  }

  JsonReader &json_;
  RequestRows &rows_;
  size_t number_ = 0, slots_ = 0;
  std::string name_;
  std::vector<uint64_t> feasigns_;
};

}  // namespace

parse::ParsedRows parse_feasigns(const parse::Parser &parser, std::string_view body, size_t most_rows) {
  try {
    JsonReader json(body);
    if (json.value().kind != Json::object)
      throw Refused("malformed", "Sample size invalid: the body must be an object");
    std::optional<RequestRows> rows;
    for (bool more = json.first('}'); more; more = json.next('}')) {
      if (json.name() != "instances") {
        json.skip();
        continue;
      }
      if (rows) throw Refused("malformed", "\"instances\" is given more than once");
      rows.emplace(parser.layout(), parser.unused_columns(), std::min(most_rows, count_braces(body)),
                   RequestRows::Form::feasigns);
      FeasignReader(json, *rows).instances(most_rows);
    }
    json.end();
    if (!rows) throw Refused("malformed", "Sample size invalid");
    return rows->done();
  } catch (const JsonError &error) {
    throw Refused("malformed", std::string("The body is not valid JSON: ") + error.what());
  }
}

}  // namespace clickline::request
