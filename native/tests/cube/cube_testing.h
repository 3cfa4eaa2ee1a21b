// What the native tests of the cube share: dictionaries made from the format's specification, servers, clients.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/owners.h"
#include "cube/client/client.h"
#include "cube/server.h"
#include "wire/wire_testing.h"

namespace clickline::testing {

inline const wire::Identity kCube{"the token", "ads", "cube.0"}, kReader{"the token", "ads", "reader"};

// A table; row_bytes 0: values of any size.
inline std::shared_ptr<const dictionary::Layers> layers_of(const std::map<uint64_t, std::string> &rows, uint32_t row_bytes,
                                                           uint32_t first_bucket = 0, uint32_t last_bucket = base::kBuckets) {
  static int files = 0;
  std::vector<std::pair<uint64_t, const std::string *>> sorted;
  for (const auto &[key, value] : rows)
    if (base::bucket_of(key) >= first_bucket && base::bucket_of(key) < last_bucket)
      sorted.emplace_back(dictionary::spread_of(key), &value);
  std::sort(sorted.begin(), sorted.end());
  dictionary::DictionaryHeader header;
  header.dtype = dictionary::kBytes;
  header.row_bytes = row_bytes;
  header.first_bucket = first_bucket;
  header.last_bucket = last_bucket;
  header.count = sorted.size();
  header.blocks = dictionary::DictionaryHeader::blocks_for(header.count);
  const dictionary::DictionaryIndex index(first_bucket, last_bucket, header.blocks);
  std::vector<uint32_t> directory(header.blocks + 1, 0), deleted(2, 0);
  std::vector<uint64_t> keys, offsets{0};
  std::string values;
  for (const auto &[spread, value] : sorted) {
    ++directory[index.block(spread) + 1];
    keys.push_back(dictionary::key_of(spread));
    values += *value;
    offsets.push_back(values.size());
  }
  for (size_t i = 1; i < directory.size(); ++i) directory[i] += directory[i - 1];
  header.values_bytes = values.size();
  std::string bytes(header.encode().data(), dictionary::kDictionaryHeader);
  auto put = [&](dictionary::DictionarySection section, const void *data, size_t size) {
    bytes.resize(header.begin(section));
    bytes.append(static_cast<const char *>(data), size);
  };
  put(dictionary::kDirectory, directory.data(), directory.size() * 4);
  put(dictionary::kDictKeys, keys.data(), keys.size() * 8);
  put(dictionary::kDeletedDirectory, deleted.data(), deleted.size() * 4);
  if (!row_bytes) put(dictionary::kOffsets, offsets.data(), offsets.size() * 8);
  put(dictionary::kValues, values.data(), values.size());
  const std::string path = "/tmp/clickline-cube-" + std::to_string(getpid()) + "-" + std::to_string(files++) + ".dict";
  std::ofstream(path, std::ios::binary) << bytes;
  auto dictionary = dictionary::Dictionary::open({path, 0, std::nullopt, false});
  unlink(path.c_str());  // it stays mapped
  return std::make_shared<const dictionary::Layers>(
      std::vector<std::shared_ptr<const dictionary::Dictionary>>{std::move(dictionary)});
}

// Values that say which version and key they are of.
inline std::string value_of(uint64_t version, uint64_t key) {
  std::string value(16, '\0');
  std::memcpy(value.data(), &version, 8);
  std::memcpy(value.data() + 8, &key, 8);
  return value;
}

inline std::map<uint64_t, std::string> rows_of(uint64_t version, size_t count) {
  std::map<uint64_t, std::string> rows;
  for (uint64_t key = 0; key < count; ++key) rows[key] = value_of(version, key);
  return rows;
}

// Shard s of N with version v: the table "user" holds keys below `count`, "texts" values of any size.
inline cube::CubeService::Tables tables_of(uint64_t version, size_t count, uint32_t shard = 0, uint32_t shards = 1) {
  const auto [first, last] = base::owner_ranges(shards)[shard];
  std::map<uint64_t, std::string> texts;
  for (uint64_t key = 0; key < 50; ++key) texts[key] = std::string(key, static_cast<char>('a' + version % 26));
  return {{"user", layers_of(rows_of(version, count), 16, first, last)}, {"texts", layers_of(texts, 0, first, last)}};
}

inline std::unique_ptr<cube::CubeServer> cube_server(uint64_t max_frame = uint64_t{1} << 20) {
  return std::make_unique<cube::CubeServer>(wire::ServerConfig{"tcp:127.0.0.1:0", kCube, max_frame, 64, 64}, echo);
}

inline cube::CubeClientConfig cube_of(std::vector<std::vector<std::string>> shards) {
  cube::CubeClientConfig config;
  config.shards = std::move(shards);
  config.identity = kReader;
  config.timeout = 5;
  return config;
}

}  // namespace clickline::testing
