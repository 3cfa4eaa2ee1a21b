// Requests in, rows out: what parse/parser.h does for log lines, with the same layout and so the same keys.
// All rows of a request are read, or a Refused says what is wrong with it (see request/request_rows.h).
#pragma once

#include <cstddef>
#include <string_view>

#include "parse/parser.h"
#include "request/tensors.h"

namespace clickline::request {

// {"instances": [{column: value, …}, …]}
parse::ParsedRows parse_json(const parse::Parser &parser, std::string_view body, size_t most_rows);
// ElasticCTR's JSON, see request/from_feasigns.cpp.
parse::ParsedRows parse_feasigns(const parse::Parser &parser, std::string_view body, size_t most_rows);
// The inputs of an Open Inference Protocol request.
parse::ParsedRows parse_tensors(const parse::Parser &parser, const Tensors &tensors, size_t most_rows);

}  // namespace clickline::request
