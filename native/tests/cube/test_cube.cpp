// Reading from cube servers: what is found, what is missing, which version, and who is asked.
#include <atomic>
#include <thread>

#include "check.h"
#include "cube/cube_testing.h"

using namespace clickline::base;
using namespace clickline::cube;
using namespace clickline::testing;

namespace {

std::string value(const GetResult &got, size_t i) {
  if (got.row_bytes) return {got.values.data() + i * got.row_bytes, got.row_bytes};
  return {got.values.data() + got.offsets[i], got.offsets[i + 1] - got.offsets[i]};
}

struct Cluster {  // [shard][replica]
  std::vector<std::vector<std::unique_ptr<CubeServer>>> servers;
  size_t keys;

  Cluster(uint32_t shards, uint32_t replicas, size_t count) : servers(shards), keys(count) {
    for (auto &shard : servers)
      for (uint32_t i = 0; i < replicas; ++i) shard.push_back(cube_server());
  }
  void load(uint64_t version) {
    for (uint32_t s = 0; s < servers.size(); ++s)
      for (auto &server : servers[s])
        server->service.load(version, tables_of(version, keys, s, static_cast<uint32_t>(servers.size())));
  }
  template <class Do>
  void each(Do what) {
    for (auto &shard : servers)
      for (auto &server : shard)
        if (server) what(server->service);
  }
  CubeClientConfig config() const {
    std::vector<std::vector<std::string>> shards;
    for (const auto &shard : servers) {
      shards.emplace_back();
      for (const auto &server : shard) shards.back().push_back(server->wire.address());
    }
    return cube_of(shards);
  }
};

void check_rows(const GetResult &got, const std::vector<uint64_t> &keys, uint64_t version, size_t count) {
  CHECK_EQ(got.count, keys.size());
  for (size_t i = 0; i < keys.size(); ++i) {
    CHECK_EQ(got.status[i], keys[i] < count ? 0 : 1);
    CHECK_EQ(value(got, i), keys[i] < count ? value_of(version, keys[i]) : std::string(16, '\0'));
  }
}

void keys_are_found_whatever_shard_owns_them() {
  for (const uint32_t shards : {1u, 3u}) {
    Cluster cluster(shards, 1, 1000);
    cluster.load(7);
    cluster.each([](CubeService &service) { service.switch_to(7, 1); });
    CubeClient client(cluster.config());
    std::vector<uint64_t> keys{5, 999, 1000, 5, 0, ~uint64_t{0}, 5};
    GetResult got = client.get("user", keys);
    CHECK_EQ(got.version, 7u);
    CHECK(got.code == Outcome::Whole);
    check_rows(got, keys, 7, 1000);
    keys.clear();
    for (uint64_t key = 0; key < 3000; ++key) keys.push_back(key * 7 % 1500);
    check_rows(client.get("user", keys), keys, 7, 1000);
    CHECK_EQ(client.counts.unique_keys, 5u + 1500u);
    got = client.get("texts", std::vector<uint64_t>{3, 100, 0, 3, 49});
    CHECK_EQ(value(got, 0), "hhh");
    CHECK_EQ(value(got, 1), "");
    CHECK_EQ(got.status[1], 1);
    CHECK_EQ(value(got, 3), "hhh");
    CHECK_EQ(value(got, 4), std::string(49, 'h'));
    CHECK_EQ(client.get("user", {}).count, 0u);
    CHECK_THROWS(client.get("user", keys, 8), "no-such-version: ");
    CHECK_THROWS(client.get("item", keys), "no-such-table: ");
    CHECK_THROWS(client.get("", keys), "1 to 255");
  }
}

void versions_are_loaded_switched_and_dropped() {
  auto server = cube_server();
  CubeService &service = server->service;
  CubeClient client(cube_of({{server->wire.address()}}));
  const std::vector<uint64_t> keys{1, 2};
  GetResult got = client.get("user", keys);
  CHECK(got.code == Outcome::AllFailed);
  CHECK_EQ(got.status[0], 3);
  CHECK(got.errors.at(0).find("empty: ") != std::string::npos);
  CHECK_THROWS(service.switch_to(1, 1), "not loaded");
  service.load(1, tables_of(1, 10));
  CHECK_THROWS(service.load(1, {}), "loaded already");
  service.load(2, tables_of(2, 10));
  service.switch_to(1, 5);
  check_rows(client.get("user", keys), keys, 1, 10);
  check_rows(client.get("user", keys, 2), keys, 2, 10);
  CHECK_THROWS(service.switch_to(2, 5), "above 5");
  CHECK_THROWS(service.drop(1), "current");
  service.switch_to(2, 6);
  client.get("user", keys);  // still of 1, but it learns of 2
  CHECK_EQ(client.get("user", keys).version, 2u);
  service.drop(1);
  service.switch_to(2, 7);
  CHECK_EQ(service.versions(), (std::vector<uint64_t>{2}));
  CHECK_EQ(client.counts.version_moves, 1u);
  service.load(1, tables_of(1, 10));  // a rollback
  service.switch_to(1, 8);
  service.drop(2);
  GetResult after = client.get("user", keys);  // pinned to 2, which is not there any more
  CHECK_EQ(after.version, 1u);
  check_rows(after, keys, 1, 10);
  CHECK_EQ(client.counts.restarts, 1u);
}

void a_new_table_is_found_although_the_pinned_version_lacks_it() {
  auto server = cube_server();
  server->service.load(1, {{"user", layers_of(rows_of(1, 10), 16)}});
  server->service.load(2, {{"item", layers_of(rows_of(2, 10), 16)}});
  server->service.switch_to(1, 1);
  CubeClient client(cube_of({{server->wire.address()}}));
  const std::vector<uint64_t> keys{1};
  CHECK_EQ(client.get("user", keys).version, 1u);
  CHECK_THROWS(client.get("item", keys), "no-such-table: ");
  server->service.switch_to(2, 2);
  CHECK_EQ(client.get("item", keys).version, 2u);
}

void failed_shards_are_told_by_code_and_status() {
  Cluster cluster(2, 2, 100);
  cluster.load(1);
  cluster.each([](CubeService &service) { service.switch_to(1, 1); });
  CubeClient client(cluster.config());
  std::vector<uint64_t> keys;
  for (uint64_t key = 0; key < 100; ++key) keys.push_back(key);
  check_rows(client.get("user", keys), keys, 1, 100);
  cluster.servers[1][0].reset();
  for (int i = 0; i < 10; ++i) CHECK(client.get("user", keys).code == Outcome::Whole);
  cluster.servers[1][1].reset();
  const GetResult got = client.get("user", keys);
  CHECK(got.code == Outcome::SomeFailed);
  for (size_t i = 0; i < keys.size(); ++i) {
    const bool lost = bucket_of(keys[i]) >= kBuckets / 2;
    CHECK_EQ(got.status[i], lost ? 3 : 0);
    CHECK_EQ(value(got, i), lost ? std::string(16, '\0') : value_of(1, keys[i]));
  }
  CHECK_EQ(got.errors.size(), 1u);
  cluster.servers[0].clear();
  const GetResult none = client.get("user", keys);
  CHECK(none.code == Outcome::AllFailed);
  CHECK_EQ(value(none, 3), std::string(16, '\0'));
  auto again = cube_server();  // elsewhere
  again->service.load(1, tables_of(1, 100, 0, 2));
  again->service.switch_to(1, 1);
  client.set_addresses(0, {again->wire.address()});
  CHECK(client.get("user", keys).code == Outcome::SomeFailed);
}

// Every row says its version: no batch may have two.
void batches_are_of_one_version_while_versions_change() {
  constexpr uint64_t kVersions = 40;
  Cluster cluster(2, 2, 300);
  cluster.load(1);
  cluster.load(2);
  cluster.each([](CubeService &service) { service.switch_to(1, 1); });
  CubeClient client(cluster.config());
  std::vector<uint64_t> keys;
  for (uint64_t key = 0; key < 300; key += 3) keys.push_back(key);
  std::atomic<bool> done{false};
  std::atomic<uint64_t> batches{0};
  std::vector<std::thread> readers;
  for (int i = 0; i < 3; ++i)
    readers.emplace_back([&] {
      while (!done) {
        const GetResult got = client.get("user", keys);
        CHECK(got.code == Outcome::Whole);
        check_rows(got, keys, got.version, 300);
        ++batches;
      }
    });
  uint64_t number = 1;
  for (uint64_t version = 2; version < kVersions; ++version) {
    const uint64_t seen = batches;
    while (batches < seen + 5) std::this_thread::yield();
    cluster.load(version + 1);
    ++number;
    cluster.each([&](CubeService &service) { service.switch_to(version, number); });
    cluster.each([&](CubeService &service) { service.drop(version - 1); });
  }
  done = true;
  for (std::thread &reader : readers) reader.join();
  CHECK(client.counts.version_moves > 10);
  CHECK_EQ(client.counts.mismatches, 0u);
}

void replies_larger_than_a_frame_are_refused_before_they_are_made() {
  auto server = cube_server(1 << 16);
  server->service.load(1, {{"wide", layers_of({{1, std::string(8192, 'x')}}, 8192)},
                           {"texts", layers_of({{1, std::string(8192, 'x')}}, 0)}});
  server->service.switch_to(1, 1);
  CubeClient client(cube_of({{server->wire.address()}}));
  std::vector<uint64_t> keys;
  for (uint64_t key = 0; key < 8; ++key) keys.push_back(key);
  GetResult got = client.get("wide", keys);
  CHECK(got.code == Outcome::AllFailed);
  CHECK(got.errors[0].find("at most 65536") != std::string::npos);
  keys.assign(7, 1);
  CHECK(client.get("wide", keys).code == Outcome::Whole);
  CHECK_EQ(value(client.get("texts", keys), 6), std::string(8192, 'x'));
}

}  // namespace

int main() {
  keys_are_found_whatever_shard_owns_them();
  versions_are_loaded_switched_and_dropped();
  a_new_table_is_found_although_the_pinned_version_lacks_it();
  failed_shards_are_told_by_code_and_status();
  batches_are_of_one_version_while_versions_change();
  replies_larger_than_a_frame_are_refused_before_they_are_made();
}
