// Reads rows of published tables from cube servers: shards, each held by several replicas.
// Promises:
// - One get, one version: all shards are asked for the same one by its number, and an answer from another is discarded.
//   If the caller names no version, it is the current version of the highest switch number seen so far; if no replica
//   of some shard has it, the whole call starts again with what is current then.
// - Each key is asked once however often it comes, only shards that own keys are asked, all of them before any answer
//   is awaited.
// - What fails on one replica is tried on another; after `hedge` seconds without an answer another is asked as well,
//   and the first answer is taken. An answer that comes too late is never taken for that of another request.
// - A shard that cannot be reached is not an exception: its keys have status Unknown and zeros, and the code says so.
// - Any number of threads may call get at the same time; each uses connections of its own.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "base/recycled.h"
#include "cube/client/replicas.h"
#include "cube/frames.h"

namespace clickline::cube {

struct CubeClientConfig {
  std::vector<std::vector<std::string>> shards;  // addresses of the replicas of each
  wire::Identity identity;
  double timeout = 1.0;  // seconds, of each attempt
  double hedge = 0.0;    // seconds; 0: never
  int retries = 2;       // of each shard's request, beyond the first attempt
  uint64_t max_frame = uint64_t{1} << 30;
};

struct CubeClientCounts {
  std::atomic<uint64_t> gets{0}, keys{0}, unique_keys{0}, missing{0}, retries{0}, hedges{0}, hedges_won{0}, failures{0},
      shards_failed{0}, version_moves{0}, restarts{0}, mismatches{0};
};

// Shards that failed: some, all.
enum class Outcome : int { Whole = 0, SomeFailed = -2, AllFailed = -3 };

struct GetResult {
  uint64_t version = 0;
  uint32_t dtype = 0, dim = 0, row_bytes = 0;
  Outcome code = Outcome::Whole;
  size_t count = 0;
  base::Recycled<uint8_t> status;    // of each key
  base::Recycled<uint64_t> offsets;  // of values of any size: count + 1
  base::Recycled<char> values;
  size_t values_bytes = 0;
  std::vector<std::string> errors;  // why shards failed
};

// Raised when every replica that answers says that it has no such version or table.
struct NoSuch : wire::PeerFailure {
  using wire::PeerFailure::PeerFailure;
};

class CubeClient {
 public:
  explicit CubeClient(CubeClientConfig config);
  ~CubeClient();
  CubeClient(const CubeClient &) = delete;

  GetResult get(std::string_view table, std::span<const uint64_t> keys, uint64_t version = 0);
  void set_addresses(size_t shard, const std::vector<std::string> &replicas);
  uint64_t version() const;  // read if the caller names none; 0: not known yet
  std::vector<uint64_t> requests() const;  // sent to each shard
  void close();  // ends the calls that are under way; later ones fail

  CubeClientCounts counts;
  std::function<void()> check_signals;  // set before use: called now and then while a call waits; may throw

 private:
  struct ShardRequest;
  struct Attempt;
  struct Call;
  struct Shard {
    std::shared_ptr<const Replicas> replicas;  // guarded by mutex_
    std::atomic<uint32_t> turn{0};
    std::atomic<uint64_t> requests{0};
  };
  class Borrowed;

  // One round: every shard request of the call is done, failed or lacks the version when it returns.
  void exchange(Call &call, std::string_view table, uint64_t version);
  void start(Call &call, ShardRequest &request, bool hedging);
  bool begin(Call &call, ShardRequest &request, Attempt &attempt);
  void settle(Call &call, ShardRequest &request);
  void look(Call &call);
  bool step(Call &call, ShardRequest &request, Attempt &attempt);
  void answered(Call &call, ShardRequest &request, Attempt &attempt);
  void refused(Call &call, ShardRequest &request, Attempt &attempt);
  void failed(ShardRequest &request, Attempt &attempt, const std::string &why, bool timed_out);
  void wait(Call &call);
  void check_times(Call &call);
  void prepare(Call &call);
  void release(Call &call) noexcept;

  uint64_t current(Call &call, std::span<const uint64_t> tried);
  void see(uint64_t number, uint64_t version);
  void stop_if_closed() const;
  GetResult assemble(Call &call, std::string_view table, uint64_t version);
  uint64_t scatter(Call &call, GetResult &got, const ShardRequest *known);

  const CubeClientConfig config_;
  const uint64_t client_;
  wire::Event stop_;
  std::atomic<bool> closed_{false};
  std::atomic<uint64_t> number_{0};
  std::atomic<uint32_t> links_{0};
  mutable std::mutex mutex_;  // of what follows
  std::vector<std::unique_ptr<Shard>> shards_;
  std::vector<std::unique_ptr<Call>> idle_calls_;  // kept for the memory they have allocated
  std::map<std::string, GetReplyHead, std::less<>> shapes_;  // of tables, for when no shard can be reached
  std::atomic<uint64_t> pinned_number_{0}, pinned_version_{0};  // read without the mutex
};

}  // namespace clickline::cube
