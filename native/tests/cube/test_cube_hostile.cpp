// Cube peers that send anything but what they should, from fixed seeds; and what links do with answers that come late.
#include <poll.h>
#include <sys/socket.h>

#include <atomic>
#include <random>
#include <thread>

#include "include/clickline_cube.h"
#include "check.h"
#include "cube/cube_testing.h"

using namespace clickline::wire;
using namespace clickline::cube;
using namespace clickline::testing;

namespace {

std::string get_request(uint64_t version, std::string_view table, std::vector<uint64_t> keys, uint64_t count) {
  GetRequestHead head{};
  head.version = version;
  head.count = count;
  head.name = static_cast<uint16_t>(table.size());
  std::string bytes(reinterpret_cast<const char *>(&head), sizeof head);
  bytes.append(table).append(padded(table.size()) - table.size(), '\0');
  return bytes.append(reinterpret_cast<const char *>(keys.data()), keys.size() * 8);
}

std::string damaged(std::string bytes, std::mt19937 &random) {
  for (int flips = static_cast<int>(random() % 4); flips && !bytes.empty(); --flips)
    bytes[random() % bytes.size()] = static_cast<char>(random() % 3 ? random() : 255);
  if (random() % 4 == 0) bytes.resize(random() % 200);
  return bytes;
}

void hostile_clients() {
  auto server = cube_server(1 << 16);
  server->service.load(1, tables_of(1, 100));
  server->service.switch_to(1, 1);
  Event never;
  const Watch watch{&never, [] {}};
  std::mt19937 random(5);
  const std::vector<std::string> requests{
      get_request(0, "user", {1, 2, 3}, 3), get_request(1, "texts", {1, 2, 3}, 3), get_request(0, "", {}, 0),
      get_request(0, "user", {1}, ~uint64_t{0}), get_request(0, "user", {1}, uint64_t{1} << 61),
      get_request(9, "user", {}, 0)};
  for (int round = 0; round < 400; ++round) {
    Channel channel = connect_to(server->wire.address(), soon(), watch);
    std::string name;
    greet_server(channel, kReader, 1, 0, name, soon());
    try {
      for (int frames = 0; frames < 3; ++frames) {
        const std::string request = damaged(requests[random() % requests.size()], random);
        send_frame(channel, FrameKind::Get, static_cast<uint64_t>(frames), request, soon());
        Buffer buffer;
        const FrameHeader header = receive_header(channel, 1 << 16, soon());
        receive_payload(channel, header, buffer, soon());
        CHECK(header.kind == FrameKind::Reply || header.kind == FrameKind::Error);
      }
    } catch (const ConnectionLost &) {
    }
  }
  CubeClient client(cube_of({{server->wire.address()}}));
  CHECK_EQ(client.get("user", std::vector<uint64_t>{5}).status[0], 0);
}

// Servers that know the token and lie afterwards: about the version, the count, sizes, offsets, numbers.
void hostile_servers() {
  Listener listener("tcp:127.0.0.1:0");
  std::atomic<bool> done{false};
  std::thread server([&] {
    std::mt19937 random(6);
    Event never;
    const Watch watch{&never, [] {}};
    while (!done) {
      pollfd polled{listener.socket.get(), POLLIN, 0};
      if (poll(&polled, 1, 5) <= 0) continue;
      Descriptor socket(accept4(listener.socket.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
      Channel channel(std::move(socket), &watch);
      try {
        greet_client(channel, kCube, 1 << 20, soon());
        for (;;) {
          Buffer buffer;
          const FrameHeader header = receive_header(channel, 1 << 20, Clock::now() + std::chrono::seconds(1));
          receive_payload(channel, header, buffer, soon());
          GetReplyHead head{};
          head.version = random() % 4 ? 1 : 2;
          head.number = random() % 8 ? 1 : random();
          head.current = 1;
          head.row_bytes = random() % 2 ? 16 : 0;
          head.count = random() % 4 ? PayloadReader(buffer.view()).number<GetRequestHead>().count : random();
          std::string bytes(reinterpret_cast<const char *>(&head), sizeof head);
          bytes.append(padded(2), '\0');
          if (random() % 2) bytes = damaged(bytes, random);
          // The rows tell what the frame around them says after the damage, so that a client that takes the rows of
          // another version, or the answer to another request, is found by what it gives.
          uint64_t version = 0;
          std::memcpy(&version, bytes.data(), std::min(bytes.size(), sizeof version));
          const uint64_t wrong_number = random() % 8 == 0;
          for (const uint64_t offset : {0, 16, 32})
            if (!head.row_bytes) bytes.append(reinterpret_cast<const char *>(&offset), 8);
          for (int row = 0; row < 2; ++row) bytes.append(value_of(version, wrong_number));
          if (random() % 8 == 0) bytes.resize(random() % bytes.size());
          send_frame(channel, random() % 8 ? FrameKind::Reply : FrameKind::Error, header.number + wrong_number, bytes,
                     soon());
        }
      } catch (const std::exception &) {
      }
    }
  });
  size_t whole = 0;
  for (int round = 0; round < 150; ++round) {
    CubeClientConfig config = cube_of({{listener.address}});
    config.timeout = 2;
    config.max_frame = 1 << 20;
    CubeClient client(std::move(config));
    for (int i = 0; i < 3; ++i) {
      try {
        const GetResult got = client.get("user", std::vector<uint64_t>{1, 2}, 1);
        if (got.code != Outcome::Whole) continue;
        ++whole;
        CHECK_EQ(got.count, 2u);
        for (size_t row = 0; row < 2; ++row)
          if (got.status[row] == 0) {
            const size_t begin = got.row_bytes ? row * 16 : got.offsets[row];
            CHECK_EQ(std::string(got.values.data() + begin, 16), value_of(1, 0));
          }
      } catch (const PeerFailure &) {
      }
    }
  }
  CHECK(whole > 10);
  done = true;
  server.join();
}

// A server of which every second answer comes late: the client has taken another's by then, and must not take this one
// for the answer to its next request.
void late_answers_are_not_taken_for_others() {
  auto good = cube_server();
  good->service.load(1, tables_of(1, 1000));
  good->service.switch_to(1, 1);
  std::atomic<int> asked{0};
  CubeService slow_service(1 << 20);
  slow_service.load(1, tables_of(1, 1000));
  slow_service.switch_to(1, 1);
  WireServer slow({"tcp:127.0.0.1:0", kCube, 1 << 20, 64, 64}, echo,
                  [&](std::string_view request, Buffer &reply, Buffer &scratch) {
                    if (++asked % 2) std::this_thread::sleep_for(std::chrono::milliseconds(12));
                    slow_service.get(request, reply, scratch);
                  });
  CubeClientConfig config = cube_of({{good->wire.address(), slow.address()}});
  config.hedge = 0.003;
  CubeClient client(std::move(config));
  std::vector<std::thread> readers;
  for (uint64_t reader = 0; reader < 3; ++reader)
    readers.emplace_back([&, reader] {
      for (uint64_t i = 0; i < 150; ++i) {
        const std::vector<uint64_t> keys{reader * 300 + i, i};
        const GetResult got = client.get("user", keys);
        CHECK(got.code == Outcome::Whole);
        CHECK_EQ(std::string(got.values.data(), 32), value_of(1, keys[0]) + value_of(1, keys[1]));
      }
    });
  for (std::thread &reader : readers) reader.join();
  CHECK(client.counts.hedges > 0);
  CHECK(client.counts.hedges_won > 0);
  CHECK_EQ(client.counts.failures, 0u);  // a link that still owed an answer would have got that one
}

// Advances the link until the condition holds.
template <class Condition>
void advance_until(CubeLink &link, Condition condition) {
  for (const auto end = soon(); !condition(); std::this_thread::yield()) {
    CHECK(Clock::now() < end);
    link.advance();
  }
}

void a_link_that_owes_an_answer_is_not_given_away() {
  CubeService service(1 << 20);
  service.load(1, tables_of(1, 10));
  service.switch_to(1, 1);
  std::atomic<bool> asked{false}, may_answer{false};
  WireServer server({"tcp:127.0.0.1:0", kCube, 1 << 20, 64, 64}, echo,
                    [&](std::string_view request, Buffer &reply, Buffer &scratch) {
                      asked = true;
                      for (const auto end = soon(); !may_answer && Clock::now() < end;) std::this_thread::yield();
                      service.get(request, reply, scratch);
                    });
  Replica replica(server.address());
  auto link = std::make_unique<CubeLink>(replica.address, kReader, 1, 0, 1 << 20);
  const std::string request = get_request(1, "user", {5}, 1);
  std::memcpy(link->prepare(request.size()), request.data(), request.size());
  link->send(7);
  advance_until(*link, [&] { return asked.load(); });
  const CubeLink *owing = link.get();
  replica.give(std::move(link));
  CHECK(replica.owing);
  CHECK(!replica.take());
  replica.check_owing(Clock::now(), std::chrono::seconds(60));
  CHECK(replica.owing);
  CHECK(!replica.take());
  may_answer = true;
  for (const auto end = soon(); replica.owing; std::this_thread::yield()) {
    CHECK(Clock::now() < end);
    replica.check_owing(Clock::now(), std::chrono::seconds(60));
  }
  link = replica.take();
  CHECK(link.get() == owing);
  CHECK(!link->awaits_answer());
}

void the_c_face_gives_the_same() {
  auto server = cube_server();
  server->service.load(1, tables_of(1, 100));
  server->service.switch_to(1, 1);
  char error[200] = "";
  const std::string addresses = server->wire.address() + ",tcp:127.0.0.1:1";
  const char *shards[] = {addresses.c_str()};
  const clickline_cube_options options{"reader", "ads", "the token", 9, 1.0, 0.0, 2};
  clickline_cube *cube = clickline_cube_open(shards, 1, &options, error, sizeof error);
  CHECK(cube);
  const uint64_t keys[] = {4, 200, 4};
  clickline_cube_rows rows;
  CHECK_EQ(clickline_cube_get(cube, "user", keys, 3, 0, &rows, error, sizeof error), 0);
  CHECK_EQ(rows.version, 1u);
  CHECK_EQ(rows.status[1], 1);
  CHECK_EQ(std::string(reinterpret_cast<const char *>(rows.values) + 32, 16), value_of(1, 4));
  clickline_cube_free(&rows);
  CHECK_EQ(clickline_cube_get(cube, "texts", keys, 1, 1, &rows, error, sizeof error), 0);
  CHECK_EQ(rows.offsets[1], 4u);
  clickline_cube_free(&rows);
  CHECK_EQ(clickline_cube_get(cube, "user", keys, 3, 2, &rows, error, sizeof error), CLICKLINE_CUBE_NO_SUCH);
  CHECK(std::string(error).starts_with("no-such-version: "));
  CHECK_EQ(clickline_cube_get(cube, nullptr, keys, 3, 2, &rows, error, sizeof error), CLICKLINE_CUBE_ERROR);
  CHECK_EQ(clickline_cube_set_addresses(cube, 1, "tcp:127.0.0.1:1"), CLICKLINE_CUBE_ERROR);
  CHECK_EQ(clickline_cube_set_addresses(cube, 0, "tcp:127.0.0.1:1"), 0);
  CHECK_EQ(clickline_cube_get(cube, "user", keys, 3, 0, &rows, error, sizeof error), CLICKLINE_CUBE_ALL_FAILED);
  CHECK_EQ(rows.status[0], 3);
  clickline_cube_free(&rows);
  clickline_cube_close(cube);
  CHECK(!clickline_cube_open(shards, 0, &options, error, sizeof error));
  CHECK(std::string(error).find("shards") != std::string::npos);
}

}  // namespace

int main() {
  hostile_clients();
  hostile_servers();
  late_answers_are_not_taken_for_others();
  a_link_that_owes_an_answer_is_not_given_away();
  the_c_face_gives_the_same();
}
