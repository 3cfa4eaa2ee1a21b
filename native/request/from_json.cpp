// {"instances": [{"C1": "68fd1e64", "I1": 3, "tags": ["a", "b"], "user": null}]}: rows as people write them. A list is
// several values; null, an empty text, an empty list and a column that is left out are all a missing value. Beside the
// instances there may be a "key", which others look at.
#include <algorithm>
#include <optional>

#include "request/parse_request.h"
#include "request/request_rows.h"

namespace clickline::request {

using parse::quoted;

namespace {

using Json = JsonValue::Kind;

void single(JsonReader &json, RequestRows &rows, const parse::Column &column, const JsonValue &value) {
  rows.take(column, value);
  if (value.nests()) [[unlikely]] json.skip_rest(value);   // which was a mistake
}

void feature(JsonReader &json, RequestRows &rows, const parse::Column &column) {
  const JsonValue value = json.value();
  if (value.kind != Json::array) return single(json, rows, column, value);
  size_t count = 0;
  for (bool more = json.first(']'); more; more = json.next(']')) {
    if (++count > RequestRows::kMostValues)
      rows.refuse("too_large", quoted(column.name) + " holds more than " + std::to_string(RequestRows::kMostValues) +
                                   " values");
    single(json, rows, column, json.value());
  }
}

void instances(JsonReader &json, RequestRows &rows, size_t most_rows) {
  const JsonValue opened = json.value();
  if (opened.kind != Json::array)
    throw Refused("malformed", std::string("\"instances\" must be a list of objects, got ") + described(opened.kind));
  size_t count = 0;
  for (bool more = json.first(']'); more; more = json.next(']')) {
    if (count == most_rows)
      throw Refused("too_large",
                    "More than " + std::to_string(most_rows) + " instances; send them in several requests");
    ++count;
    const JsonValue instance = json.value();
    rows.begin();
    if (instance.kind != Json::object) {
      rows.mistake("wrong_type", std::string("an instance must be an object of features and values, got ") +
                                     described(instance.kind));
      json.skip_rest(instance);
      continue;
    }
    for (bool inside = json.first('}'); inside; inside = json.next('}')) {
      if (const parse::Column *column = rows.column(json.name())) feature(json, rows, *column);
      else json.skip();
    }
    rows.finish();
  }
  if (!count) throw Refused("malformed", "\"instances\" is empty; it must hold at least one instance");
}

// An unknown member is refused: a client that names a model there would be answered by another model.
std::string unknown_member(std::string_view name) {
  return "The body has a member " + quoted(name) + "; known are \"instances\" and \"key\". A model is named by the " +
         "path, /models/NAME/predict, features are named in the instances";
}

}  // namespace

parse::ParsedRows parse_json(const parse::Parser &parser, std::string_view body, size_t most_rows) {
  std::optional<RequestRows> rows;
  try {
    JsonReader json(body);
    if (json.value().kind != Json::object)
      throw Refused("malformed", R"(The body must be an object like {"instances": [{"feature": "value"}]})");
    for (bool more = json.first('}'); more; more = json.next('}')) {
      const std::string_view name = json.name();
      if (name != "instances") {
        if (name != "key") throw Refused("malformed", unknown_member(name));
        json.skip();
        continue;
      }
      if (rows) throw Refused("malformed", "\"instances\" is given more than once");
      rows.emplace(parser.layout(), parser.unused_columns(), std::min(most_rows, count_braces(body)),
                   RequestRows::Form::instances);
      instances(json, *rows, most_rows);
    }
    json.end();
    if (!rows) throw Refused("malformed", R"(The body has no "instances": {"instances": [{"feature": "value"}]})");
    return rows->done();
  } catch (const JsonError &error) {
    const Refused refused("malformed", std::string("The body is not valid JSON: ") + error.what());
    throw rows ? rows->with(refused) : refused;
  } catch (const Refused &refused) {
    if (!rows) throw;
    throw rows->with(refused);
  }
}

}  // namespace clickline::request
