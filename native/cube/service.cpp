// Loading, switching and reading versions of tables.
#include "cube/service.h"

#include <algorithm>
#include <chrono>

#include "wire/server.h"

namespace clickline::cube {

namespace {

template <class Map>
std::string known(const Map &map, std::string (*name)(const typename Map::key_type &)) {
  std::string result;
  for (const auto &[key, _] : map) result += (result.empty() ? "" : ", ") + name(key);
  return result.empty() ? "none" : result;
}

std::string as_number(const uint64_t &value) { return std::to_string(value); }
std::string as_text(const std::string &value) { return value; }

}  // namespace

std::shared_ptr<const CubeService::State> CubeService::state() const {
  std::lock_guard lock(state_mutex_);
  return state_;
}

// The old state goes with its last reader, not under the lock.
template <class Change>
void CubeService::change(Change change) {
  std::lock_guard one_at_a_time(change_mutex_);
  auto next = std::make_shared<State>(*state());
  change(*next);
  std::shared_ptr<const State> old = std::move(next);
  std::lock_guard lock(state_mutex_);
  state_.swap(old);
}

std::shared_ptr<const CubeService::Tables> CubeService::checked(uint64_t version, Tables tables) {
  if (!version) throw std::invalid_argument("versions are numbered from 1");
  for (const auto &[name, layers] : tables)
    if (name.empty() || name.size() > 255 || !layers)
      throw std::invalid_argument("a table's name has 1 to 255 bytes but got '" + name + "'");
  return std::make_shared<const Tables>(std::move(tables));
}

void CubeService::load(uint64_t version, Tables tables) {
  const auto began = wire::Clock::now();
  auto whole = checked(version, std::move(tables));
  change([&](State &state) {
    if (!state.versions.emplace(version, std::move(whole)).second)
      throw std::invalid_argument("version " + std::to_string(version) + " is loaded already");
  });
  ++counts.loads;
  counts.load_microseconds +=
      static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(wire::Clock::now() - began).count());
}

void CubeService::replace(uint64_t version, Tables tables) {
  auto whole = checked(version, std::move(tables));
  change([&](State &state) {
    const auto found = state.versions.find(version);
    if (found == state.versions.end())
      throw std::invalid_argument("version " + std::to_string(version) + " is not loaded; loaded: " +
                                  known(state.versions, as_number));
    found->second = std::move(whole);
  });
}

void CubeService::switch_to(uint64_t version, uint64_t number) {
  change([&](State &state) {
    if (!state.versions.contains(version))
      throw std::invalid_argument("version " + std::to_string(version) + " is not loaded; loaded: " +
                                  known(state.versions, as_number));
    if (number < state.number || (number == state.number && version != state.current))
      throw std::invalid_argument("a switch number above " + std::to_string(state.number) + " is needed but got " +
                                  std::to_string(number));
    if (version != state.current) ++counts.switches;
    state.current = version;
    state.number = number;
  });
}

void CubeService::drop(uint64_t version) {
  change([&](State &state) {
    if (version == state.current && version)
      throw std::invalid_argument("version " + std::to_string(version) + " is the current one; switch first");
    if (!state.versions.erase(version))
      throw std::invalid_argument("version " + std::to_string(version) + " is not loaded; loaded: " +
                                  known(state.versions, as_number));
  });
  ++counts.drops;
}

void CubeService::clear() {
  change([](State &state) { state = {}; });
}

std::vector<uint64_t> CubeService::versions() const {
  std::vector<uint64_t> result;
  for (const auto &[version, _] : state()->versions) result.push_back(version);
  return result;
}

std::pair<uint64_t, uint64_t> CubeService::current() const {
  const auto now = state();
  return {now->current, now->number};
}

std::vector<std::tuple<uint64_t, std::string, std::shared_ptr<const dictionary::Layers>>> CubeService::tables() const {
  std::vector<std::tuple<uint64_t, std::string, std::shared_ptr<const dictionary::Layers>>> result;
  for (const auto &[version, tables] : state()->versions)
    for (const auto &[name, layers] : *tables) result.emplace_back(version, name, layers);
  return result;
}

void CubeService::get(std::string_view request, wire::Buffer &reply, wire::Buffer &scratch) {
  try {
    answer(request, reply, scratch);
  } catch (...) {
    counts.errors.fetch_add(1, std::memory_order_relaxed);
    throw;
  }
}

void CubeService::answer(std::string_view request, wire::Buffer &reply, wire::Buffer &scratch) {
  wire::PayloadReader reader(request);
  const auto head = reader.number<GetRequestHead>();
  if (head.name > 255) throw std::invalid_argument("a table's name has at most 255 bytes");
  const std::string_view name = reader.take(head.name);
  reader.take(padded(head.name) - head.name);
  const auto *keys = reinterpret_cast<const uint64_t *>(reader.items(head.count, sizeof(uint64_t)).data());
  reader.end();

  const auto now = state();
  const uint64_t version = head.version ? head.version : now->current;
  if (!version) throw wire::HandlerError(std::string(kEmpty) + "no version is being served yet");
  const auto tables = now->versions.find(version);
  if (tables == now->versions.end())
    throw wire::HandlerError(std::string(kNoSuchVersion) + std::to_string(version) + " is not here; loaded: " +
                             known(now->versions, as_number));
  GetReplyHead got{version, now->number, now->current, 0, 0, 0, 0, head.count};
  if (!head.name && !head.count) {  // only asks what is current
    char *out = reply.resize(sizeof got + sizeof(uint64_t));
    std::memcpy(out, &got, sizeof got);
    std::memset(out + sizeof got, 0, sizeof(uint64_t));
    return;
  }
  const auto table = tables->second->find(name);
  if (table == tables->second->end())
    throw wire::HandlerError(std::string(kNoSuchTable) + "version " + std::to_string(version) + " has no table '" +
                             std::string(name) + "'; it has: " + known(*tables->second, as_text));
  const dictionary::Layers &layers = *table->second;
  got.dtype = layers.dtype();
  got.dim = layers.dim();
  got.row_bytes = layers.row_bytes();
  auto room = [&](uint64_t size) {  // the count is one of keys that are here, so nothing overflows
    if (size > max_reply_)
      throw std::invalid_argument(std::to_string(head.count) + " values are " + std::to_string(size) +
                                  " bytes, but frames have at most " + std::to_string(max_reply_));
    return reply.resize(size);
  };
  const uint64_t values_at = sizeof got + padded(head.count);
  uint8_t *status;
  if (got.row_bytes) {
    char *out = room(values_at + head.count * got.row_bytes);
    status = reinterpret_cast<uint8_t *>(out + sizeof got);
    layers.lookup({keys, head.count}, status, out + values_at, got.row_bytes);
  } else {
    char *places = scratch.resize(head.count * (sizeof(std::string_view) + 9) + 16);
    auto *values = reinterpret_cast<std::string_view *>(places);
    auto *offsets = reinterpret_cast<uint64_t *>(values + head.count);
    auto *found = reinterpret_cast<uint8_t *>(offsets + head.count + 1);
    std::uninitialized_value_construct_n(values, head.count);
    layers.find({keys, head.count}, found, values);
    const uint64_t bytes = dictionary::place_values({values, head.count}, offsets);
    const uint64_t offsets_bytes = (head.count + 1) * sizeof(uint64_t);
    if (bytes > max_reply_) room(bytes);  // says no; the sum below cannot overflow then
    char *out = room(values_at + offsets_bytes + bytes);
    status = reinterpret_cast<uint8_t *>(out + sizeof got);
    std::memcpy(status, found, head.count);
    std::memcpy(out + values_at, offsets, offsets_bytes);
    dictionary::copy_values({values, head.count}, out + values_at + offsets_bytes);
  }
  std::memcpy(reply.data(), &got, sizeof got);
  std::memset(status + head.count, 0, padded(head.count) - head.count);
  uint64_t missing = 0;
  for (uint64_t i = 0; i < head.count; ++i) missing += status[i] != dictionary::kFound;
  counts.gets.fetch_add(1, std::memory_order_relaxed);
  counts.keys.fetch_add(head.count, std::memory_order_relaxed);
  counts.missing.fetch_add(missing, std::memory_order_relaxed);
  counts.bytes.fetch_add(reply.size(), std::memory_order_relaxed);
}

}  // namespace clickline::cube
