// Many clients at once, servers that come and go, calls that are cancelled. What it means for training is tested in
// tests/native/wire.
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "check.h"
#include "wire/wire_testing.h"

using namespace clickline::table;
using namespace clickline::wire;
using namespace clickline::testing;

namespace {

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
      Ones ones;
      std::vector<float> out(400);
      for (int step = 0; step < kSteps; ++step) {
        ones.push(lane);
        lane.pull(0, ones.keys, out.data(), 4, true, nullptr, step % 2 ? Width::Fp16 : Width::Fp32);
        CHECK(out[0] < 0);
        const std::string text = std::to_string(c * 1000 + step);
        CHECK((call(lane, "x", text, step % 3) == std::vector<std::string>(2, text + "!")));
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
    Ones ones;
    for (int step = 0; step < 60; ++step) ones.push(lane);
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

// A push that waits for the tables when a checkpoint is loaded that has it already is answered, not executed.
void a_request_that_waits_while_sequences_are_restored() {
  for (const uint64_t restored : {1u, 3u}) {
    Table table(table_config());
    WireServer server({"tcp:127.0.0.1:0", kServer}, echo);
    server.tables.add(0, &table);
    Lane lane(lane_to({server.address()}));
    std::thread waiting([&] {
      if (restored == 1)
        Ones().push(lane);
      else
        CHECK_THROWS(Ones().push(lane), "request 1 was done before; 3 was the last");
    });
    while (!server.counts.requests) std::this_thread::yield();
    while (server.once.under_way() == 0) std::this_thread::yield();
    server.once.restore({{1, 0, restored}});
    server.tables.open();
    waiting.join();
    CHECK_EQ(table.step(), 0u);
    CHECK_EQ(std::get<2>(server.once.sequences().at(0)), restored);
    if (restored == 3) continue;
    Ones().push(lane);
    CHECK_EQ(table.step(), 1u);
  }
}

}  // namespace

int main() {
  a_request_that_waits_while_sequences_are_restored();
  many_clients_while_tables_are_shut_and_opened();
  restarts();
  cancelled();
}
