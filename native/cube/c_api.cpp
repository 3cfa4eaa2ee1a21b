// The C API of cube/client/client.h, declared in include/clickline_cube.h. No exception leaves it.
#include <algorithm>
#include <cstring>
#include <string>

#include "cube/client/client.h"
#include "include/clickline_cube.h"

using namespace clickline;
using namespace clickline::cube;

struct clickline_cube {
  CubeClient client;
};

#define EXPORTED __attribute__((visibility("default")))

namespace {

void say(const char *what, char *error, size_t bytes) {
  if (!error || !bytes) return;
  const size_t size = std::min(std::strlen(what), bytes - 1);
  std::memcpy(error, what, size);
  error[size] = '\0';
}

std::vector<std::string> split(std::string_view text) {
  std::vector<std::string> result;
  for (size_t comma; !text.empty(); text.remove_prefix(std::min(comma + 1, text.size()))) {
    comma = std::min(text.find(','), text.size());
    result.emplace_back(text.substr(0, comma));
  }
  return result;
}

template <class T>
T *needed(T *argument, const char *name) {
  if (!argument) throw std::invalid_argument(std::string(name) + " must not be NULL");
  return argument;
}

}  // namespace

extern "C" {

EXPORTED clickline_cube *clickline_cube_open(const char *const *shards, size_t count,
                                             const clickline_cube_options *options, char *error, size_t error_bytes) {
  try {
    needed(shards, "shards"), needed(options, "options");
    CubeClientConfig config;
    for (size_t i = 0; i < count; ++i) config.shards.push_back(split(needed(shards[i], "a shard")));
    config.identity.name = needed(options->name, "name");
    config.identity.job = needed(options->job, "job");
    config.identity.token.assign(static_cast<const char *>(needed(options->token, "token")), options->token_bytes);
    wire::PayloadWriter().text(config.identity.job).text(config.identity.name);  // at most 255 bytes each
    if (options->timeout > 0) config.timeout = options->timeout;
    config.hedge = options->hedge;
    config.retries = options->retries;
    return new clickline_cube{CubeClient(std::move(config))};
  } catch (const std::exception &e) {
    say(e.what(), error, error_bytes);
    return nullptr;
  }
}

EXPORTED int clickline_cube_get(clickline_cube *cube, const char *table, const uint64_t *keys, size_t count,
                                uint64_t version, clickline_cube_rows *rows, char *error, size_t error_bytes) {
  try {
    *needed(rows, "rows") = {};
    if (count) needed(keys, "keys");
    auto got = std::make_unique<GetResult>(
        needed(cube, "cube")->client.get(needed(table, "table"), {keys, count}, version));
    if (!got->errors.empty()) say(got->errors.front().c_str(), error, error_bytes);
    *rows = {got->version, got->dtype, got->dim, got->row_bytes, got->count, got->status.data(),
             got->offsets.size() ? got->offsets.data() : nullptr,
             reinterpret_cast<const uint8_t *>(got->values.data()), got->values_bytes, nullptr};
    const int code = static_cast<int>(got->code);
    rows->owner = got.release();
    return code;
  } catch (const NoSuch &e) {
    say(e.what(), error, error_bytes);
    return CLICKLINE_CUBE_NO_SUCH;
  } catch (const std::exception &e) {
    say(e.what(), error, error_bytes);
    return CLICKLINE_CUBE_ERROR;
  }
}

EXPORTED void clickline_cube_free(clickline_cube_rows *rows) {
  if (!rows) return;
  delete static_cast<GetResult *>(rows->owner);
  *rows = {};
}

EXPORTED int clickline_cube_set_addresses(clickline_cube *cube, size_t shard, const char *replicas) {
  try {
    needed(cube, "cube")->client.set_addresses(shard, split(needed(replicas, "replicas")));
    return CLICKLINE_CUBE_OK;
  } catch (const std::exception &) {
    return CLICKLINE_CUBE_ERROR;
  }
}

EXPORTED void clickline_cube_close(clickline_cube *cube) { delete cube; }

}  // extern "C"
