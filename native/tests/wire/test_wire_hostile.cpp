// Peers that send anything but what they should, from fixed seeds: the others must be none the worse for it.
#include <poll.h>
#include <sys/socket.h>

#include <atomic>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "check.h"
#include "wire/wire_testing.h"

using namespace clickline::base;
using namespace clickline::table;
using namespace clickline::wire;
using namespace clickline::testing;

namespace {

// A stream of frames as a peer would send them, then damaged; or no frames at all.
std::string hostile(std::mt19937 &random, const std::vector<std::string> &payloads) {
  std::string bytes;
  for (int frames = static_cast<int>(random() % 4) + 1; frames; --frames) {
    std::string payload = payloads[random() % payloads.size()];
    for (int flips = static_cast<int>(random() % 4); flips && !payload.empty(); --flips)
      payload[random() % payload.size()] = static_cast<char>(random() % 3 ? random() : 255);
    if (random() % 4 == 0) payload.resize(random() % 200);
    FrameHeader header{static_cast<FrameKind>(random() % 8 ? 1 + random() % 9 : random()), payload.size(), random() % 3,
                       xxh64(payload, 0)};
    if (random() % 8 == 0) header.length = random() % 2 ? random() : ~uint64_t{0} >> random() % 64;
    const HeaderBytes front = encode(header);
    bytes.append(front.data(), front.size()).append(payload);
  }
  if (random() % 4 == 0) bytes[random() % bytes.size()] = static_cast<char>(random());
  if (random() % 4 == 0) bytes.resize(random() % bytes.size() + 1);
  return bytes;
}

template <class Head>
std::string with_head(Head head, size_t rest) {
  return std::string(reinterpret_cast<const char *>(&head), sizeof head) + std::string(rest, '\1');
}

void hostile_clients() {
  Table table(table_config());
  WireServer server({"tcp:127.0.0.1:0", kServer, 1 << 16}, echo);
  server.tables.add(0, &table);
  server.tables.open();
  PullHead pull{};
  pull.dim = 4;
  pull.count = 3;
  PushHead push{};
  push.sequence = 1;
  push.dim = 4;
  push.count = 2;
  const std::vector<std::string> payloads{with_head(pull, 24), with_head(push, 2 * (8 + 4 + 4 + 16 + 2)),
                                          std::string("\0\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0xxxxxxxxbody", 28), ""};
  Event never;
  const Watch watch{&never, [] {}};
  std::mt19937 random(3);
  for (int round = 0; round < 600; ++round) {
    Channel channel = connect_to(server.address(), soon(), watch);
    std::string name;
    if (round % 4) greet_server(channel, kClient, round, 0, name, soon());  // some know the token
    std::string bytes = hostile(random, payloads);
    iovec piece{bytes.data(), bytes.size()};
    try {
      channel.send({&piece, 1}, soon());
      if (random() % 2) receive_header(channel, 1 << 20, Clock::now() + std::chrono::milliseconds(5));
    } catch (const ConnectionLost &) {
    } catch (const PeerFailure &) {
    }
  }
  Lane lane(lane_to({server.address()}, 1'000'000));
  CHECK_EQ(call(lane, "x", "still here")[0], "still here!");
  CHECK(server.counts.garbled + server.counts.refused > 50);
}

void hostile_servers() {
  Listener listener("tcp:127.0.0.1:0");
  std::atomic<bool> done{false};
  std::thread server([&] {
    std::mt19937 random(4);
    Event never;
    const Watch watch{&never, [] {}};
    PayloadWriter hello;
    hello.number(kWireVersion).number(kWireVersion).text("clicks").text("liar").raw(std::string(32, 'n'));
    const std::vector<std::string> payloads{hello.bytes(), std::string(40, 'w'), std::string(16, 'r'), "no"};
    for (int round = 0; !done; ++round) {
      pollfd polled{listener.socket.get(), POLLIN, 0};
      if (poll(&polled, 1, 20) <= 0) continue;
      Channel channel(Descriptor(accept4(listener.socket.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC)), &watch);
      try {
        if (round % 2) greet_client(channel, kServer, 1 << 20, soon());  // knows the token, lies afterwards
        std::string bytes = hostile(random, payloads);
        iovec piece{bytes.data(), bytes.size()};
        channel.send({&piece, 1}, soon());
      } catch (const std::exception &) {
      }
    }
  });
  for (int round = 0; round < 150; ++round) {
    LaneConfig config = lane_to({listener.address});
    config.retry_for = 0;
    config.deadline = 5;
    Lane lane(std::move(config));
    try {
      if (round % 2) {
        const uint64_t key = 1;
        float out[4];
        lane.pull(0, {&key, 1}, out, 4, true, nullptr, Width::Fp32);
      } else {
        call(lane, "x", "y", true);
      }
    } catch (const PeerFailure &) {
    }
  }
  done = true;
  server.join();
}

// They are closed, the oldest first, as more come; who knows the token gets in all the while.
void silent_strangers_make_room() {
  ServerConfig config{"tcp:127.0.0.1:0", kServer};
  config.max_unauthenticated = 8;
  WireServer server(std::move(config), echo);
  Event never;
  const Watch watch{&never, [] {}};
  std::vector<Channel> silent;
  for (int i = 0; i < 200; ++i) {
    silent.push_back(connect_to(server.address(), soon(), watch));
    if (i % 20) continue;
    Lane lane(lane_to({server.address()}, 100 + i));
    CHECK_EQ(call(lane, "x", "here")[0], "here!");
  }
  while (server.counts.crowded_out < 150) std::this_thread::yield();
  CHECK(server.counts.connections <= 16 + 20);
  int closed = 0;
  for (const Channel &channel : silent) closed += channel.gone();
  CHECK(closed >= 150);
  CHECK(!silent.back().gone());
}

}  // namespace

int main() {
  silent_strangers_make_room();
  hostile_servers();
  hostile_clients();
}
