// Shared by the native tests of the wire: identities, a handler, and small pushes.
#pragma once

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "wire/lane.h"
#include "wire/server.h"

namespace clickline::testing {

inline const wire::Identity kServer{"the token", "clicks", "pserver.0"}, kClient{"the token", "clicks", "trainer.0"};

inline wire::Clock::time_point soon() { return wire::Clock::now() + std::chrono::seconds(10); }

inline void echo(const wire::Peer &, std::string_view op, std::string_view body, const std::shared_ptr<wire::Buffer> &,
                 wire::Buffer &reply) {
  if (op == "fail") throw wire::HandlerError("as told");
  std::memcpy(reply.resize(body.size() + 1), body.data(), body.size());
  reply.data()[body.size()] = '!';
}

inline wire::LaneConfig lane_to(std::vector<std::string> addresses, uint64_t client = 1) {
  return {std::move(addresses), kClient, client, 0, 10.0, 10.0, uint64_t{1} << 20};
}

inline std::vector<std::string> call(wire::Lane &lane, const std::string &op, const std::string &body, bool once = false) {
  std::vector<size_t> to(lane.servers());
  for (size_t i = 0; i < to.size(); ++i) to[i] = i;
  const std::vector<std::vector<iovec>> bodies(to.size(), {{const_cast<char *>(body.data()), body.size()}});
  std::vector<std::string> result;
  for (const wire::Buffer &reply : lane.call(op, to, bodies, once, std::nullopt)) result.emplace_back(reply.view());
  return result;
}

inline std::vector<uint64_t> ordered_keys(size_t count) {
  std::vector<uint64_t> keys;
  for (size_t i = 0; i < count; ++i) keys.push_back(i * 0x9E3779B97F4A7C15ull + 1);
  std::sort(keys.begin(), keys.end(), [](uint64_t a, uint64_t b) { return base::bucket_of(a) < base::bucket_of(b); });
  return keys;
}

struct Ones {  // a push
  std::vector<uint64_t> keys = ordered_keys(100);
  std::vector<float> gradients = std::vector<float>(400, 1), ones = std::vector<float>(100, 1);
  std::vector<uint16_t> slots = std::vector<uint16_t>(100, 0);
  void push(wire::Lane &lane) {
    wire::PushHead head{};
    head.dim = 4;
    head.scale = 1;
    lane.push(head, {keys, gradients.data(), ones.data(), ones.data(), slots.data()}, {});
  }
};

inline table::TableConfig table_config() {
  table::TableConfig config;
  config.dim = 4;
  config.optimizer.name = "sgd";
  config.init_scale = 0;
  return config;
}

}  // namespace clickline::testing
