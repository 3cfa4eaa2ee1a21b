// One round of a get: requests to all shards that own keys, until each has answered or failed.
#include <signal.h>

#include <algorithm>

#include "cube/client/shard_requests.h"

namespace clickline {

namespace {

constexpr auto kLongestSleep = std::chrono::milliseconds(200);  // between two looks at signals

Clock::duration duration(double seconds) {
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(std::clamp(seconds, 0.0, 3e9)));
}

void write_request(char *place, std::string_view table, uint64_t version, std::span<const uint64_t> keys) {
  GetHead head{};
  head.version = version;
  head.count = keys.size();
  head.name = static_cast<uint16_t>(table.size());
  std::memcpy(place, &head, sizeof head);
  place += sizeof head;
  std::memset(place, 0, padded(table.size()));
  std::memcpy(place, table.data(), table.size());
  if (!keys.empty()) std::memcpy(place + padded(table.size()), keys.data(), keys.size_bytes());
}

}  // namespace

void CubeClient::exchange(Batch &batch, std::string_view table, uint64_t version) {
  batch.table = table;
  batch.version = version;
  batch.waiting = batch.used;
  batch.no_such_table.clear();
  for (Ask &ask : batch.all()) start(batch, ask, false);
  while (batch.waiting) wait(batch);
}

// Asks another replica: instead of one that failed, or besides one that is slow. Without any left, it is the ask's end.
void CubeClient::start(Batch &batch, Ask &ask, bool hedging) {
  Shard &shard = *shards_[ask.shard];
  Try &each = ask.tries[hedging && ask.tries[0].link ? 1 : 0];
  for (;;) {
    const uint32_t turn = shard.turn.fetch_add(1, std::memory_order_relaxed);
    int index = choose(*ask.replicas, ask.asked, turn, duration(config_.timeout));
    if (index < 0 && hedging) return;
    if (index < 0 && !ask.lacks) {  // all were asked: once more, if it may still be tried
      ask.asked = 0;
      index = choose(*ask.replicas, 0, turn, duration(config_.timeout));
    }
    if (!hedging && (index < 0 || ask.failures > config_.retries)) {
      ask.state = ask.lacks ? Ask::State::Lacking : Ask::State::Failed;
      if (ask.error.empty()) ask.error = "shard " + std::to_string(ask.shard) + " has no replicas";
      --batch.waiting;
      return;
    }
    if (hedging) {
      ++counts.hedges;
    } else {
      if (ask.failures) ++counts.retries;
      ask.hedged = false;
    }
    each.index = index;
    each.hedge = hedging;
    ask.asked |= uint64_t{1} << index;
    shard.requests.fetch_add(1, std::memory_order_relaxed);
    if (begin(batch, ask, each) || hedging) return;
  }
}

// False: it has failed already.
bool CubeClient::begin(Batch &batch, Ask &ask, Try &each) {
  each.replica = (*ask.replicas)[static_cast<size_t>(each.index)];
  try {
    each.link = each.replica->take();
    if (!each.link)
      each.link = std::make_unique<CubeLink>(each.replica->address, config_.identity, client_, ++links_,
                                             config_.max_frame);
    char *place = each.link->prepare(sizeof(GetHead) + padded(batch.table.size()) + ask.keys.size_bytes());
    write_request(place, batch.table, batch.version, ask.keys);
    each.link->ask(++number_);
    each.deadline = each.link->asked_at + duration(config_.timeout);
    each.link->advance();
    return true;
  } catch (const ConnectionLost &error) {
    failed(ask, each, error.what(), false);
  } catch (const PeerFailure &error) {
    failed(ask, each, error.what(), false);
  }
  return false;
}

void CubeClient::failed(Ask &ask, Try &each, const std::string &why, bool timed_out) {
  ++counts.failures;
  const uint64_t bit = uint64_t{1} << each.index;
  ask.error = "shard " + std::to_string(ask.shard) + ", " + each.replica->address + ": " + why;
  if (each.link && each.link->reused && !timed_out && !(ask.renewed & bit)) {  // a new connection may do
    each.replica->forget_idle();
    ask.renewed |= bit;
    ask.asked &= ~bit;
  } else {
    each.replica->failed(Clock::now());
    ++ask.failures;
  }
  each.link.reset();
}

// After a try has come to nothing: another, unless one is still under way.
void CubeClient::settle(Batch &batch, Ask &ask) {
  if (ask.state == Ask::State::Waiting && !ask.tries[0].link && !ask.tries[1].link) start(batch, ask, false);
}

void CubeClient::look(Batch &batch) {
  for (Ask &ask : batch.all())
    for (Try &each : ask.tries)
      if (ask.state == Ask::State::Waiting && each.link && !step(batch, ask, each)) settle(batch, ask);
}

// False: this try has come to nothing.
bool CubeClient::step(Batch &batch, Ask &ask, Try &each) {
  try {
    if (each.link->advance()) answered(batch, ask, each);
    return static_cast<bool>(each.link) || ask.state != Ask::State::Waiting;
  } catch (const ConnectionLost &error) {
    failed(ask, each, error.what(), false);
  } catch (const PeerFailure &error) {
    failed(ask, each, error.what(), false);
  }
  return false;
}

void CubeClient::wait(Batch &batch) {
  const bool found = batch.patience.spin([&] {
    const size_t before = batch.waiting;
    look(batch);
    return batch.waiting < before;
  });
  if (!found) {
    batch.polled.assign(1, {stop_.fd(), POLLIN, 0});
    const auto now = Clock::now();
    auto until = now + kLongestSleep;
    for (const Ask &ask : batch.all()) {
      if (ask.state != Ask::State::Waiting) continue;
      for (const Try &each : ask.tries) {
        if (!each.link) continue;
        batch.polled.push_back({each.link->fd(), each.link->events(), 0});
        until = std::min(until, each.deadline);
        if (config_.hedge > 0 && !ask.hedged) until = std::min(until, each.link->asked_at + duration(config_.hedge));
      }
    }
    const auto left = std::max<Clock::duration>(until - now, Clock::duration::zero());
    const auto seconds = std::chrono::floor<std::chrono::seconds>(left);
    const timespec time{seconds.count(), std::chrono::nanoseconds(left - seconds).count()};
    const int ready = ::ppoll(batch.polled.data(), batch.polled.size(), &time, nullptr);
    if (ready <= 0 || batch.polled[0].revents) {
      stop_if_closed();
      if (check_signals) check_signals();
    }
    look(batch);
  }
  batch.patience.ended();
  if (batch.waiting) check_times(batch);
}

void CubeClient::check_times(Batch &batch) {
  const auto now = Clock::now();
  for (Ask &ask : batch.all()) {
    for (Try &each : ask.tries) {
      if (ask.state != Ask::State::Waiting || !each.link || now < each.deadline) continue;
      failed(ask, each, "no answer within " + std::to_string(config_.timeout) + " s", true);
      settle(batch, ask);
    }
    if (ask.state != Ask::State::Waiting || config_.hedge <= 0 || ask.hedged) continue;
    if (ask.tries[0].link && now >= ask.tries[0].link->asked_at + duration(config_.hedge)) {
      ask.hedged = true;
      start(batch, ask, true);
    }
  }
}

// Links go back to their replicas, answered or not.
void CubeClient::release(Batch &batch) noexcept {
  for (Ask &ask : batch.all()) {
    if (ask.link) {
      ask.link->finish();
      ask.winner->give(std::move(ask.link));
    }
    for (Try &each : ask.tries)
      if (each.link) each.replica->give(std::move(each.link));
    ask.winner.reset();
    ask.replicas.reset();
  }
  batch.used = 0;
}

}  // namespace clickline
