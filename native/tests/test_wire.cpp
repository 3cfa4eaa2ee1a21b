// The wire without Python: published vectors of its hashes, half floats, the handshake, hostile bytes on both sides, and
// many clients at once. What it means for training is tested in tests/wire.
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "check.h"
#include "half.h"
#include "hash_stream.h"
#include "sha256.h"
#include "wire_client.h"
#include "wire_server.h"

using namespace clickline;

namespace {

const Identity kServer{"the token", "clicks", "pserver.0"}, kClient{"the token", "clicks", "trainer.0"};

std::string hex(const Digest &digest) {
  std::string text;
  for (unsigned char byte : digest) {
    char two[3];
    std::snprintf(two, sizeof two, "%02x", byte);
    text += two;
  }
  return text;
}

void hashes_are_those_of_the_standards() {
  CHECK_EQ(hex(sha256("")), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK_EQ(hex(sha256("abc")), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK_EQ(hex(sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq")),
           "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  CHECK_EQ(hex(sha256(std::string(1'000'000, 'a'))), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  CHECK_EQ(hex(hmac_sha256(std::string(20, '\x0b'), "Hi There")),  // RFC 4231
           "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  CHECK_EQ(hex(hmac_sha256("Jefe", "what do ya want for nothing?")),
           "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  CHECK_EQ(hex(hmac_sha256(std::string(131, '\xaa'), "Test Using Larger Than Block-Size Key - Hash Key First")),
           "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    std::string bytes(random() % 200, '\0');
    for (char &c : bytes) c = static_cast<char>(random());
    HashStream stream;
    for (size_t at = 0; at < bytes.size();) {
      const size_t size = std::min<size_t>(random() % 50, bytes.size() - at);
      stream.update(bytes.data() + at, size);
      at += size;
    }
    CHECK_EQ(stream.result(), xxh64(bytes, 0));
  }
}

void half_floats() {
  for (uint32_t bits = 0; bits < 65536; ++bits) {  // every value survives the way there and back
    const auto half = static_cast<uint16_t>(bits);
    const float wide = from_fp16(half);
    if (!std::isnan(wide)) CHECK_EQ(to_fp16(wide), half);
    CHECK_EQ(std::isnan(from_fp16(to_fp16(wide))), std::isnan(wide));
    const float wide2 = from_bf16(half);
    if (!std::isnan(wide2)) CHECK_EQ(to_bf16(wide2), half);
    CHECK_EQ(std::isnan(from_bf16(to_bf16(wide2))), std::isnan(wide2));
  }
  std::mt19937 random(2);
  std::vector<float> values;
  for (int i = 0; i < 100'003; ++i) values.push_back(std::bit_cast<float>(static_cast<uint32_t>(random())));
  for (float value : {65504.0f, 65519.0f, 65520.0f, 1e30f, -1e30f, INFINITY, -INFINITY, 0x1p-24f, 0x1p-25f, 0x1.8p-25f})
    values.push_back(value);
  std::vector<uint16_t> narrow(values.size());
  std::vector<float> wide(values.size());
  to_fp16(values.data(), narrow.data(), values.size());
  from_fp16(narrow.data(), wide.data(), values.size());
  for (size_t i = 0; i < values.size(); ++i) {  // the hardware's bits and the portable ones
    CHECK_EQ(narrow[i], to_fp16(values[i]));
    CHECK_EQ(std::bit_cast<uint32_t>(wide[i]), std::bit_cast<uint32_t>(from_fp16(narrow[i])));
    CHECK_EQ(std::isfinite(wide[i]), std::isfinite(values[i]));
    CHECK_EQ(std::isfinite(from_bf16(to_bf16(values[i]))), std::isfinite(values[i]));
  }
}

struct Pair {  // two ends of a connection
  Event never;
  Watch watch{&never, [] {}};
  Channel a, b;
  Pair() {
    int ends[2];
    CHECK(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends));
    a = Channel(Descriptor(ends[0]), &watch);
    b = Channel(Descriptor(ends[1]), &watch);
  }
};

Clock::time_point soon() { return Clock::now() + std::chrono::seconds(10); }

void frames() {
  Pair pair;
  send_frame(pair.a, Kind::Call, 7, "payload", soon());
  Buffer buffer;
  const FrameHeader header = receive_header(pair.b, 100, soon());
  CHECK_EQ(header.number, 7u);
  CHECK_EQ(receive_payload(pair.b, header, buffer, soon()), "payload");

  const HeaderBytes good = encode({Kind::Call, 50, 1, 2});
  for (size_t bit = 0; bit < good.size() * 8; ++bit) {  // no single bit can be wrong unnoticed
    HeaderBytes bad = good;
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << bit % 8));
    CHECK_THROWS(decode(bad, 100), "");
  }
  CHECK_THROWS(decode(good, 49), "a frame of 50 bytes, but at most 49 are taken");
  send_frame(pair.a, Kind::Call, 7, "", soon());
  CHECK_EQ(receive_header(pair.b, 0, soon()).length, 0u);
  CHECK_THROWS(receive_header(pair.b, 0, Clock::now() + std::chrono::milliseconds(20)), "timed out");
  pair.a.close();
  CHECK(pair.b.gone());
  CHECK_THROWS(receive_header(pair.b, 0, soon()), "closed the connection");

  Reader reader("\5\0ab");
  CHECK_THROWS(reader.text(), "ends too early");
  CHECK_THROWS(Reader("12345678").items(uint64_t{1} << 61, 8), "ends too early");
}

void handshakes() {
  auto meet = [](Identity client, Identity server, std::string &at_server) {
    Pair pair;
    std::string at_client, name;
    std::thread other([&] {
      try {
        const Peer peer = greet_client(pair.a, server, 999, soon());
        at_server = peer.name + " " + std::to_string(peer.client) + " " + std::to_string(peer.lane);
      } catch (const std::exception &error) {
        at_server = error.what();
      }
    });
    try {
      const Welcome welcome = greet_server(pair.b, client, 5, 6, name, soon());
      at_client = welcome.name + " " + std::to_string(welcome.max_frame);
    } catch (const std::exception &error) {
      at_client = error.what();
    }
    other.join();
    return at_client;
  };
  std::string at_server;
  CHECK_EQ(meet(kClient, kServer, at_server), "pserver.0 999");
  CHECK_EQ(at_server, "trainer.0 5 6");
  std::string at_client = meet({"another", "clicks", "t"}, kServer, at_server);
  CHECK_EQ(at_client, "refused: " + at_server);
  CHECK(at_server.find("wrong token") == 0);
  at_client = meet({"the token", "views", "t"}, kServer, at_server);
  CHECK_EQ(at_client, "refused: " + at_server);
  CHECK(at_server.find("wrong job: the client is of 'views', the server of 'clicks'") == 0);
}

void echo(const Peer &, std::string_view op, std::string_view body, const std::shared_ptr<Buffer> &, Buffer &reply) {
  if (op == "fail") throw HandlerError("as told");
  std::memcpy(reply.resize(body.size() + 1), body.data(), body.size());
  reply.data()[body.size()] = '!';
}

LaneConfig lane_to(std::vector<std::string> addresses, uint64_t client = 1) {
  return {std::move(addresses), kClient, client, 0, 10.0, 10.0, uint64_t{1} << 20};
}

std::vector<std::string> call(Lane &lane, const std::string &op, const std::string &body, bool once = false) {
  std::vector<size_t> to(lane.servers());
  for (size_t i = 0; i < to.size(); ++i) to[i] = i;
  const std::vector<std::vector<iovec>> bodies(to.size(), {{const_cast<char *>(body.data()), body.size()}});
  std::vector<std::string> result;
  for (const Buffer &reply : lane.call(op, to, bodies, once, std::nullopt)) result.emplace_back(reply.view());
  return result;
}

std::vector<uint64_t> ordered_keys(size_t count) {
  std::vector<uint64_t> keys;
  for (size_t i = 0; i < count; ++i) keys.push_back(i * 0x9E3779B97F4A7C15ull + 1);
  std::sort(keys.begin(), keys.end(), [](uint64_t a, uint64_t b) { return bucket_of(a) < bucket_of(b); });
  return keys;
}

struct Row {  // one push of ones
  std::vector<uint64_t> keys = ordered_keys(100);
  std::vector<float> gradients = std::vector<float>(400, 1), ones = std::vector<float>(100, 1);
  std::vector<uint16_t> slots = std::vector<uint16_t>(100, 0);
  void push(Lane &lane) {
    PushHead head{};
    head.dim = 4;
    head.scale = 1;
    lane.push(head, {keys, gradients.data(), ones.data(), ones.data(), slots.data()}, {});
  }
};

TableConfig table_config() {
  TableConfig config;
  config.dim = 4;
  config.optimizer.name = "sgd";
  config.init_scale = 0;
  return config;
}

void many_clients_while_tables_are_shut_and_opened() {
  Table tables[2] = {Table(table_config()), Table(table_config())};
  WireServer servers[2] = {{{"tcp:127.0.0.1:0", kServer}, echo}, {{"tcp:127.0.0.1:0", kServer}, echo}};
  for (int s = 0; s < 2; ++s) servers[s].tables.add(0, &tables[s]);
  constexpr int kClients = 4, kSteps = 25;
  std::vector<std::thread> clients;
  std::atomic<int> running{kClients};
  for (int c = 0; c < kClients; ++c)
    clients.emplace_back([&, c] {
      Lane lane(lane_to({servers[0].address(), servers[1].address()}, c + 1));
      Row row;
      std::vector<float> out(400);
      for (int step = 0; step < kSteps; ++step) {
        row.push(lane);
        lane.pull(0, row.keys, out.data(), 4, true, nullptr, step % 2 ? Width::Fp16 : Width::Fp32);
        CHECK(out[0] < 0);
        const std::string text = std::to_string(c * 1000 + step);
        for (const std::string &reply : call(lane, "x", text, step % 3)) CHECK_EQ(reply, text + "!");
        CHECK_THROWS(call(lane, "fail", ""), "pserver.0 at tcp:127.0.0.1:");
      }
      --running;
    });
  while (running) {
    for (WireServer &server : servers) {
      server.tables.open();
      std::this_thread::yield();
      server.tables.shut();
      uint64_t pushes = server.tables.counts.pushes;
      server.tables.add(1, &tables[0]);
      CHECK_EQ(server.tables.counts.pushes.load(), pushes);
    }
    for (WireServer &server : servers) server.tables.open();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  for (auto &client : clients) client.join();
  for (Table &table : tables) CHECK_EQ(table.step(), uint64_t{kClients * kSteps});
  CHECK_EQ(tables[0].size() + tables[1].size(), 100u);
}

// Servers that come and go, at one address; nothing is lost or counted twice.
void restarts() {
  const std::string address = "unix:/tmp/clickline-test-wire-" + std::to_string(getpid());
  Table table(table_config());
  std::vector<std::tuple<uint64_t, uint32_t, uint64_t>> sequences;
  std::atomic<bool> done{false};
  std::thread client([&] {
    Lane lane(lane_to({address}));
    Row row;
    for (int step = 0; step < 60; ++step) row.push(lane);
    done = true;
  });
  while (!done) {
    WireServer server({address, kServer}, echo);
    server.tables.add(0, &table);
    server.once.restore(sequences);
    server.tables.open();
    const uint64_t before = table.step();
    while (!done && table.step() < before + 7) std::this_thread::yield();
    server.close();
    sequences = server.once.sequences();
  }
  client.join();
  CHECK_EQ(table.step(), 60u);
  CHECK(access(address.c_str() + 5, F_OK) != 0);
}

void cancelled() {
  WireServer server({"tcp:127.0.0.1:0", kServer}, echo);  // never opened
  Lane lane(lane_to({server.address()}));
  for (int round = 0; round < 3; ++round) {
    std::thread waiting([&] {
      float out[4];
      const uint64_t key = 1;
      CHECK_THROWS(lane.pull(0, {&key, 1}, out, 4, true, nullptr, Width::Fp32), "cancelled");
    });
    const uint64_t asked = round + 1;
    while (server.counts.requests < asked) std::this_thread::yield();
    const auto begin = Clock::now();
    lane.cancel();
    waiting.join();
    CHECK(Clock::now() - begin < std::chrono::seconds(2));
  }
}

// A stream of frames as a peer would send them, then damaged; or no frames at all.
std::string hostile(std::mt19937 &random, const std::vector<std::string> &payloads) {
  std::string bytes;
  for (int frames = static_cast<int>(random() % 4) + 1; frames; --frames) {
    std::string payload = payloads[random() % payloads.size()];
    for (int flips = static_cast<int>(random() % 4); flips && !payload.empty(); --flips)
      payload[random() % payload.size()] = static_cast<char>(random() % 3 ? random() : 255);
    if (random() % 4 == 0) payload.resize(random() % 200);
    FrameHeader header{static_cast<Kind>(random() % 8 ? 1 + random() % 9 : random()), payload.size(), random() % 3,
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
  std::freopen("/dev/null", "w", stderr);  // a thousand refusals
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
    Writer hello;
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

}  // namespace

int main() {
  hashes_are_those_of_the_standards();
  half_floats();
  frames();
  handshakes();
  many_clients_while_tables_are_shut_and_opened();
  restarts();
  cancelled();
  hostile_servers();
  hostile_clients();
}
