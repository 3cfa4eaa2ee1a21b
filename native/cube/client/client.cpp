// Choosing the version of a get, and starting again when it is gone.
#include "cube/client/client.h"

#include <sys/random.h>

#include <algorithm>

#include "cube/client/shard_requests.h"

namespace clickline::cube {

namespace {

constexpr int kRestarts = 4;  // of one get, because its version was not there any more

uint64_t random_number() {
  uint64_t result = 0;
  if (::getrandom(&result, sizeof result, 0) != sizeof result) throw std::runtime_error("no random numbers");
  return result;
}

CubeClientConfig checked(CubeClientConfig config) {
  auto fail = [](const std::string &text) { throw std::invalid_argument(text); };
  if (config.shards.empty() || config.shards.size() > base::kBuckets)
    fail("a cube has 1 to " + std::to_string(base::kBuckets) + " shards but got " + std::to_string(config.shards.size()));
  if (config.identity.token.empty()) fail("the token must not be empty");
  if (!(config.timeout > 0)) fail("timeout must be above 0 but got " + std::to_string(config.timeout));
  if (!(config.hedge >= 0)) fail("hedge must be 0 or more but got " + std::to_string(config.hedge));
  if (config.retries < 0) fail("retries must be 0 or more but got " + std::to_string(config.retries));
  return config;
}

// Those that were there before keep their links and what is known about them.
std::shared_ptr<const Replicas> replicas_at(const std::vector<std::string> &addresses, const Replicas &before) {
  if (addresses.empty() || addresses.size() > 64)
    throw std::invalid_argument("a shard has 1 to 64 replicas but got " + std::to_string(addresses.size()));
  auto result = std::make_shared<Replicas>();
  for (const std::string &address : addresses) {
    const auto known = std::find_if(before.begin(), before.end(), [&](const auto &r) { return r->address == address; });
    result->push_back(known == before.end() ? std::make_shared<Replica>(address) : *known);
  }
  return result;
}

}  // namespace

// A Call for the time of a get; the memory it has allocated serves the next.
class CubeClient::Borrowed {
 public:
  explicit Borrowed(CubeClient &client) : client_(client) {
    std::lock_guard lock(client.mutex_);
    if (client.idle_calls_.empty()) {
      call_ = std::make_unique<Call>(static_cast<uint32_t>(client.shards_.size()));
    } else {
      call_ = std::move(client.idle_calls_.back());
      client.idle_calls_.pop_back();
    }
  }
  ~Borrowed() {
    client_.release(*call_);
    std::lock_guard lock(client_.mutex_);
    client_.idle_calls_.push_back(std::move(call_));
  }
  Borrowed(const Borrowed &) = delete;
  Call &operator*() { return *call_; }

 private:
  CubeClient &client_;
  std::unique_ptr<Call> call_;
};

CubeClient::CubeClient(CubeClientConfig config) : config_(checked(std::move(config))), client_(random_number()) {
  for (const auto &addresses : config_.shards) {
    shards_.push_back(std::make_unique<Shard>());
    shards_.back()->replicas = replicas_at(addresses, {});
    shards_.back()->turn = static_cast<uint32_t>(client_ >> 32);  // clients do not all begin with the same one
  }
}

CubeClient::~CubeClient() { close(); }

void CubeClient::close() {
  closed_ = true;
  stop_.set();
}

void CubeClient::stop_if_closed() const {
  if (closed_) throw wire::Cancelled("cancelled: the client is closed");
}

void CubeClient::set_addresses(size_t shard, const std::vector<std::string> &replicas) {
  if (shard >= shards_.size())
    throw std::invalid_argument("shard must be 0 to " + std::to_string(shards_.size() - 1) + " but got " +
                                std::to_string(shard));
  std::lock_guard lock(mutex_);
  shards_[shard]->replicas = replicas_at(replicas, *shards_[shard]->replicas);
}

uint64_t CubeClient::version() const { return pinned_version_; }

std::vector<uint64_t> CubeClient::requests() const {
  std::vector<uint64_t> result;
  for (const auto &shard : shards_) result.push_back(shard->requests);
  return result;
}

void CubeClient::see(uint64_t number, uint64_t version) {
  if (!version || number <= pinned_number_.load(std::memory_order_acquire)) return;
  std::lock_guard lock(mutex_);
  if (number <= pinned_number_) return;
  if (pinned_version_ && pinned_version_ != version) ++counts.version_moves;
  pinned_version_ = version;
  pinned_number_.store(number, std::memory_order_release);
}

// One request for each shard that owns keys; without keys one to the first shard, which tells the table's shape.
void CubeClient::prepare(Call &call) {
  release(call);
  std::lock_guard lock(mutex_);
  for (uint32_t shard = 0; shard < shards_.size(); ++shard) {
    if (call.keys.of(shard).empty() && (shard || call.keys.unique())) continue;
    if (call.used == call.requests.size()) call.requests.emplace_back();
    ShardRequest &request = call.requests[call.used++];
    request.shard = shard;
    request.keys = call.keys.of(shard);
    request.reset(shards_[shard]->replicas);
  }
}

// Asks the shards what is current. The version of the highest switch, but none of `tried`; 0: there is none.
uint64_t CubeClient::current(Call &call, std::span<const uint64_t> tried) {
  prepare(call);
  for (ShardRequest &request : call.all()) request.keys = {};
  exchange(call, "", 0);
  uint64_t best = 0, best_number = 0, highest = 0, highest_number = 0;
  for (const ShardRequest &request : call.all()) {
    if (request.state != ShardRequest::State::Done || !request.head.current) continue;
    if (!highest || request.head.number > highest_number)
      highest = request.head.current, highest_number = request.head.number;
    if (std::find(tried.begin(), tried.end(), request.head.current) != tried.end()) continue;
    if (!best || request.head.number > best_number) best = request.head.current, best_number = request.head.number;
  }
  std::lock_guard lock(mutex_);
  // A number below the pinned one: transfer has lost its state and counts from the start.
  if (highest && (!pinned_version_ || highest_number < pinned_number_)) {
    pinned_version_ = highest;
    pinned_number_ = highest_number;
  }
  return best;
}

GetResult CubeClient::get(std::string_view table, std::span<const uint64_t> keys, uint64_t version) {
  if (table.empty() || table.size() > 255)
    throw std::invalid_argument("a table's name has 1 to 255 bytes but got '" + std::string(table) + "'");
  stop_if_closed();
  Borrowed borrowed(*this);
  Call &call = *borrowed;
  call.keys.take(keys);
  uint64_t wanted = version ? version : pinned_version_.load();
  if (!wanted) wanted = current(call, {});
  std::vector<uint64_t> tried;
  for (int round = 0; wanted; ++round) {
    prepare(call);
    exchange(call, table, wanted);
    const bool lacking = std::any_of(call.all().begin(), call.all().end(), [](const ShardRequest &request) {
      return request.state == ShardRequest::State::Lacking;
    });
    const std::string no_table = call.no_such_table;
    if (no_table.empty() && (!lacking || round == kRestarts || (round && tried.back() == wanted))) break;
    if (version) {
      for (const ShardRequest &request : call.all())
        if (request.state == ShardRequest::State::Lacking)
          throw NoSuch(std::string(kNoSuchVersion) + "no replica has version " + std::to_string(version) + " (" +
                       request.error + ")");
      throw NoSuch(no_table);
    }
    tried.push_back(wanted);
    const uint64_t next = round < kRestarts ? current(call, tried) : 0;
    if (!next && !no_table.empty()) throw NoSuch(no_table);
    if (next) {
      ++counts.restarts;
      wanted = next;
    }
  }
  return assemble(call, table, wanted);
}

}  // namespace clickline::cube
