// From the bytes of a request to its inputs. What the values of an input mean is checked by parse_tensors().
#include "request/tensors.h"

#include "parse/fields.h"
#include "request/request_rows.h"

namespace clickline::request {

using parse::quoted;

namespace {

using Json = JsonValue::Kind;

constexpr const char *kDatatypes[] = {"BOOL",   "INT8",   "INT16", "INT32", "INT64", "UINT8", "UINT16",
                                      "UINT32", "UINT64", "FP16",  "FP32",  "FP64",  "BYTES"};
constexpr int kDeepestData = 8;

class InferReader {
 public:
  InferReader(std::string_view json, std::optional<std::string_view> binary) : json_(json), binary_(binary) {}

  InferRequest read() {
    bool found = false;
    if (json_.value().kind != Json::object) refuse("malformed", R"(The request must be an object with "inputs")");
    for (bool more = json_.first('}'); more; more = json_.next('}')) {
      const std::string_view name = json_.name();
      if (name == "inputs") {
        if (found) refuse("malformed", "\"inputs\" is given more than once");
        found = true;
        inputs();
      } else if (name == "id") {
        out_.id = json_.skipped();
      } else if (name == "outputs") {
        out_.outputs = json_.skipped();
      } else if (name == "parameters") {
        out_.parameters = json_.skipped();
      } else {
        json_.skip();
      }
    }
    json_.end();
    if (!found || out_.tensors.inputs.empty()) refuse("malformed", R"("inputs" must be a list of at least one input)");
    if (binary_ && used_ != binary_->size())
      refuse("malformed", std::to_string(binary_->size()) + " bytes follow the JSON, but the inputs' binary_data_size" +
                              " add up to " + std::to_string(used_));
    return std::move(out_);
  }

 private:
  [[noreturn]] static void refuse(const char *reason, const std::string &what) { throw Refused(reason, what); }
  [[noreturn]] void refuse_input(const char *reason, const std::string &what) const {   // the one that is being read
    throw Refused(reason, "inputs[" + std::to_string(out_.tensors.inputs.size() - 1) + "]: " + what);
  }

  void inputs() {
    if (json_.value().kind != Json::array) refuse("malformed", "\"inputs\" must be a list");
    for (bool more = json_.first(']'); more; more = json_.next(']')) {
      if (json_.value().kind != Json::object)
        refuse("malformed", "inputs[" + std::to_string(out_.tensors.inputs.size()) + "] must be an object");
      input(out_.tensors.inputs.emplace_back());
    }
  }

  void input(Tensor &tensor) {
    std::optional<uint64_t> size;
    bool named = false, typed = false, shaped = false, listed = false;
    for (bool more = json_.first('}'); more; more = json_.next('}')) {
      const std::string_view name = json_.name();
      if (name == "name") {
        tensor.name = keep(text("name")), named = true;
      } else if (name == "datatype") {
        tensor.kind = tensor_kind(text("datatype"), tensor.name), typed = true;
      } else if (name == "shape") {
        if (shaped) refuse_input("malformed", "\"shape\" is given more than once");
        shape(tensor), shaped = true;
      } else if (name == "data") {
        if (listed) refuse_input("malformed", "\"data\" is given more than once");
        const JsonValue opened = json_.value();
        if (opened.kind != Json::array) refuse_input("wrong_shape", "\"data\" must be a list");
        data(tensor, 1), listed = true;
      } else if (name == "parameters") {
        parameters(size);
      } else {
        json_.skip();
      }
    }
    if (!named || !typed || !shaped) refuse_input("malformed", "an input needs name, datatype and shape");
    if (listed == size.has_value())
      refuse_input("malformed", "an input needs either \"data\" or the parameter binary_data_size");
    if (size) pack(tensor, *size);
  }

  std::string_view text(const char *what) {
    const JsonValue value = json_.value();
    if (value.kind != Json::text)
      refuse_input("malformed", std::string("\"") + what + "\" must be a text, got " + described(value.kind));
    return value.text;
  }

  std::string_view keep(std::string_view text) {
    return json_.within(text) ? text : out_.tensors.kept.emplace_back(text);
  }

  void shape(Tensor &tensor) {
    if (json_.value().kind != Json::array) refuse_input("wrong_shape", "\"shape\" must be a list of sizes");
    for (bool more = json_.first(']'); more; more = json_.next(']')) {
      const JsonValue size = json_.value();
      if (size.kind != Json::whole || size.whole < 0)
        refuse_input("wrong_shape", "\"shape\" must be a list of sizes, got " + quoted(size.text));
      tensor.add_dimension(static_cast<uint64_t>(size.whole));
    }
  }

  void data(Tensor &tensor, int depth) {
    if (depth > kDeepestData) refuse_input("wrong_shape", "\"data\" is nested too deeply");
    for (bool more = json_.first(']'); more; more = json_.next(']')) {
      JsonValue value = json_.value();
      if (value.kind == Json::array) {
        data(tensor, depth + 1);
        continue;
      }
      if (value.kind == Json::object) refuse_input("wrong_type", "\"data\" holds an object");
      if (++values_ > Tensors::kMostValues)
        refuse("too_large", "More than " + std::to_string(Tensors::kMostValues) +
                                " values as JSON; send them by the binary extension");
      if (value.kind == Json::text) value.text = keep(value.text);
      tensor.values.push_back(value);
    }
  }

  void parameters(std::optional<uint64_t> &size) {
    if (json_.value().kind != Json::object) refuse_input("malformed", "\"parameters\" must be an object");
    for (bool more = json_.first('}'); more; more = json_.next('}')) {
      const bool wanted = json_.name() == "binary_data_size";
      const JsonValue value = json_.value();
      if (wanted) {
        if (value.kind != Json::whole || value.whole < 0)
          refuse_input("malformed", "binary_data_size must be a number of bytes, got " + quoted(value.text));
        size = static_cast<uint64_t>(value.whole);
      }
      json_.skip_rest(value);
    }
  }

  void pack(Tensor &tensor, uint64_t size) {
    if (!binary_)
      refuse_input("malformed", "binary data needs the header Inference-Header-Content-Length, the length of the JSON");
    if (size > binary_->size() - used_)
      refuse_input("malformed", "binary_data_size is " + std::to_string(size) + ", but only " +
                              std::to_string(binary_->size() - used_) + " bytes are left in the body");
    tensor.packed = true, tensor.data = {binary_->data() + used_, size};
    used_ += size;
  }

  JsonReader json_;
  std::optional<std::string_view> binary_;
  InferRequest out_;
  size_t used_ = 0, values_ = 0;
};

}  // namespace

const char *datatype_of(TensorKind kind) { return kDatatypes[static_cast<size_t>(kind)]; }

TensorKind tensor_kind(std::string_view datatype, std::string_view input) {
  for (size_t i = 0; i < std::size(kDatatypes); ++i)
    if (datatype == kDatatypes[i]) return static_cast<TensorKind>(i);
  std::string known;
  for (const char *name : kDatatypes) known.append(known.empty() ? "" : ", ").append(name);
  throw Refused("wrong_type",
                "Input " + quoted(input) + " has the datatype " + quoted(datatype) + "; known ones: " + known);
}

InferRequest read_infer_request(std::string_view json, std::optional<std::string_view> binary) {
  try {
    return InferReader(json, binary).read();
  } catch (const JsonError &error) {
    throw Refused("malformed", std::string("The request is not valid JSON: ") + error.what());
  }
}

}  // namespace clickline::request
