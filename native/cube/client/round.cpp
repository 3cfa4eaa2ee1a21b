// One round of a get: requests to all shards that own keys, until each has answered or failed.
#include <signal.h>

#include <algorithm>

#include "cube/client/shard_requests.h"

namespace clickline::cube {

namespace {

constexpr auto kLongestSleep = std::chrono::milliseconds(200);  // between two looks at signals

wire::Clock::duration duration(double seconds) {
  return std::chrono::duration_cast<wire::Clock::duration>(std::chrono::duration<double>(std::clamp(seconds, 0.0, 3e9)));
}

void write_request(char *place, std::string_view table, uint64_t version, std::span<const uint64_t> keys) {
  GetRequestHead head{};
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

void CubeClient::exchange(Call &call, std::string_view table, uint64_t version) {
  call.table = table;
  call.version = version;
  call.waiting = call.used;
  call.no_such_table.clear();
  for (ShardRequest &request : call.all()) start(call, request, false);
  while (call.waiting) wait(call);
}

// Asks another replica: instead of one that failed, or besides one that is slow. If none is left, the request ends.
void CubeClient::start(Call &call, ShardRequest &request, bool hedging) {
  Shard &shard = *shards_[request.shard];
  Attempt &attempt = request.attempts[hedging && request.attempts[0].link ? 1 : 0];
  for (;;) {
    const uint32_t turn = shard.turn.fetch_add(1, std::memory_order_relaxed);
    int index = choose(*request.replicas, request.asked, turn, duration(config_.timeout));
    if (index < 0 && hedging) return;
    if (index < 0 && !request.lacks) {  // all were asked: once more, if it may still be tried
      request.asked = 0;
      index = choose(*request.replicas, 0, turn, duration(config_.timeout));
    }
    if (!hedging && (index < 0 || request.failures > config_.retries)) {
      request.state = request.lacks ? ShardRequest::State::Lacking : ShardRequest::State::Failed;
      if (request.error.empty()) request.error = "shard " + std::to_string(request.shard) + " has no replicas";
      --call.waiting;
      return;
    }
    if (hedging) {
      ++counts.hedges;
    } else {
      if (request.failures) ++counts.retries;
      request.hedged = false;
    }
    attempt.index = index;
    attempt.hedge = hedging;
    request.asked |= uint64_t{1} << index;
    shard.requests.fetch_add(1, std::memory_order_relaxed);
    if (begin(call, request, attempt) || hedging) return;
  }
}

// False: it has failed already.
bool CubeClient::begin(Call &call, ShardRequest &request, Attempt &attempt) {
  attempt.replica = (*request.replicas)[static_cast<size_t>(attempt.index)];
  try {
    attempt.link = attempt.replica->take();
    if (!attempt.link)
      attempt.link = std::make_unique<CubeLink>(attempt.replica->address, config_.identity, client_, ++links_,
                                                config_.max_frame);
    char *place = attempt.link->prepare(sizeof(GetRequestHead) + padded(call.table.size()) + request.keys.size_bytes());
    write_request(place, call.table, call.version, request.keys);
    attempt.link->send(++number_);
    attempt.deadline = attempt.link->asked_at + duration(config_.timeout);
    attempt.link->advance();
    return true;
  } catch (const wire::ConnectionLost &error) {
    failed(request, attempt, error.what(), false);
  } catch (const wire::PeerFailure &error) {
    failed(request, attempt, error.what(), false);
  }
  return false;
}

void CubeClient::failed(ShardRequest &request, Attempt &attempt, const std::string &why, bool timed_out) {
  ++counts.failures;
  const uint64_t bit = uint64_t{1} << attempt.index;
  request.error = "shard " + std::to_string(request.shard) + ", " + attempt.replica->address + ": " + why;
  if (attempt.link && attempt.link->reused && !timed_out && !(request.renewed & bit)) {  // a new connection may do
    attempt.replica->forget_idle();
    request.renewed |= bit;
    request.asked &= ~bit;
  } else {
    attempt.replica->failed(wire::Clock::now());
    ++request.failures;
  }
  attempt.link.reset();
}

// After an attempt has failed: another, unless one is still under way.
void CubeClient::settle(Call &call, ShardRequest &request) {
  if (request.state == ShardRequest::State::Waiting && !request.attempts[0].link && !request.attempts[1].link)
    start(call, request, false);
}

void CubeClient::look(Call &call) {
  for (ShardRequest &request : call.all())
    for (Attempt &attempt : request.attempts)
      if (request.state == ShardRequest::State::Waiting && attempt.link && !step(call, request, attempt))
        settle(call, request);
}

// False: this attempt has failed.
bool CubeClient::step(Call &call, ShardRequest &request, Attempt &attempt) {
  try {
    if (attempt.link->advance()) answered(call, request, attempt);
    return static_cast<bool>(attempt.link) || request.state != ShardRequest::State::Waiting;
  } catch (const wire::ConnectionLost &error) {
    failed(request, attempt, error.what(), false);
  } catch (const wire::PeerFailure &error) {
    failed(request, attempt, error.what(), false);
  }
  return false;
}

void CubeClient::wait(Call &call) {
  const bool found = call.spin.spin([&] {
    const size_t before = call.waiting;
    look(call);
    return call.waiting < before;
  });
  if (!found) {
    call.polled.assign(1, {stop_.fd(), POLLIN, 0});
    const auto now = wire::Clock::now();
    auto until = now + kLongestSleep;
    for (const ShardRequest &request : call.all()) {
      if (request.state != ShardRequest::State::Waiting) continue;
      for (const Attempt &attempt : request.attempts) {
        if (!attempt.link) continue;
        call.polled.push_back({attempt.link->fd(), attempt.link->events(), 0});
        until = std::min(until, attempt.deadline);
        if (config_.hedge > 0 && !request.hedged)
          until = std::min(until, attempt.link->asked_at + duration(config_.hedge));
      }
    }
    const auto left = std::max<wire::Clock::duration>(until - now, wire::Clock::duration::zero());
    const auto seconds = std::chrono::floor<std::chrono::seconds>(left);
    const timespec time{seconds.count(), std::chrono::nanoseconds(left - seconds).count()};
    const int ready = ::ppoll(call.polled.data(), call.polled.size(), &time, nullptr);
    if (ready <= 0 || call.polled[0].revents) {
      stop_if_closed();
      if (check_signals) check_signals();
    }
    look(call);
  }
  call.spin.ended();
  if (call.waiting) check_times(call);
}

void CubeClient::check_times(Call &call) {
  const auto now = wire::Clock::now();
  for (ShardRequest &request : call.all()) {
    for (Attempt &attempt : request.attempts) {
      if (request.state != ShardRequest::State::Waiting || !attempt.link || now < attempt.deadline) continue;
      failed(request, attempt, "no answer within " + std::to_string(config_.timeout) + " s", true);
      settle(call, request);
    }
    if (request.state != ShardRequest::State::Waiting || config_.hedge <= 0 || request.hedged) continue;
    if (request.attempts[0].link && now >= request.attempts[0].link->asked_at + duration(config_.hedge)) {
      request.hedged = true;
      start(call, request, true);
    }
  }
}

// Links go back to their replicas, answered or not.
void CubeClient::release(Call &call) noexcept {
  for (ShardRequest &request : call.all()) {
    if (request.link) {
      request.link->finish();
      request.winner->give(std::move(request.link));
    }
    // A hedge may be rare: a replica that was taken from the client would keep its connections until the next one.
    for (Attempt &attempt : request.attempts) {
      if (attempt.link) attempt.replica->give(std::move(attempt.link));
      attempt.replica.reset();
    }
    request.winner.reset();
    request.replicas.reset();
  }
  call.used = 0;
}

}  // namespace clickline::cube
