#include "dictionary/header.h"

#include <cstring>

namespace clickline::dictionary {

const char *const kSectionNames[kDictSections] = {"directory",    "keys",    "deleted directory",
                                                  "deleted keys", "offsets", "values"};

namespace {

constexpr char kMagic[8] = {'C', 'L', 'K', 'D', 'I', 'C', 'T', '\0'};
constexpr uint32_t kVersion = 1;
constexpr size_t kHashed = 120;  // bytes that the header's own hash covers
constexpr uint64_t kMaxValues = uint64_t{1} << 62;

uint64_t aligned(uint64_t at) { return (at + kDictionaryAlign - 1) / kDictionaryAlign * kDictionaryAlign; }

}  // namespace

uint64_t DictionaryHeader::section_bytes(int section) const {
  switch (section) {
    case kDirectory: return 4 * (blocks + 1);
    case kDictKeys: return 8 * count;
    case kDeletedDirectory: return 4 * (deleted_blocks + 1);
    case kDeletedKeys: return 8 * deleted;
    case kOffsets: return row_bytes ? 0 : 8 * (count + 1);
    default: return values_bytes;
  }
}

uint64_t DictionaryHeader::begin(int section) const {
  uint64_t at = kDictionaryHeader;
  for (int s = 0; s < section; ++s) at = aligned(at + section_bytes(s));
  return at;
}

uint64_t DictionaryHeader::bytes_of_row(uint32_t dtype, uint32_t dim) {
  switch (dtype) {
    case kFp32: return uint64_t{4} * dim;
    case kFp16: return uint64_t{2} * dim;
    case kU8: return uint64_t{8} + dim;
    default: return 0;
  }
}

void DictionaryHeader::check_shape() const {
  if (dtype >= kDictionaryTypes)
    throw std::invalid_argument("dtype must be 0 (bytes), 1 (fp32), 2 (fp16) or 3 (u8) but is " + text(dtype));
  if (dtype != kBytes && (dim == 0 || row_bytes != bytes_of_row(dtype, dim)))
    throw std::invalid_argument("rows of dtype " + text(dtype) + " and dim " + text(dim) + " must have " +
                                text(bytes_of_row(dtype, dim)) + " bytes, and more than none of them, but have " +
                                text(row_bytes));
  if (first_bucket >= last_bucket || last_bucket > base::kBuckets)
    throw std::invalid_argument("buckets must be 0 <= first < last <= 4096 but are " + text(first_bucket) + " and " +
                                text(last_bucket));
}

std::array<char, kDictionaryHeader> DictionaryHeader::encode() const {
  std::array<char, kDictionaryHeader> bytes{};
  const uint32_t words[6] = {kVersion, dtype, dim, row_bytes, first_bucket, last_bucket};
  const uint64_t sizes[5] = {count, deleted, blocks, deleted_blocks, values_bytes};
  std::memcpy(&bytes[0], kMagic, sizeof kMagic);
  std::memcpy(&bytes[8], words, sizeof words);
  std::memcpy(&bytes[32], sizes, sizeof sizes);
  std::memcpy(&bytes[72], hashes.data(), sizeof hashes);
  const uint64_t own = base::xxh64({bytes.data(), kHashed}, 0);
  std::memcpy(&bytes[kHashed], &own, 8);
  return bytes;
}

DictionaryHeader DictionaryHeader::decode(const char *bytes, uint64_t file_bytes) {
  if (file_bytes < kDictionaryHeader)
    throw DictionaryError("header: " + text(file_bytes) + " bytes are too few for a dictionary, whose header has 128");
  if (std::memcmp(bytes, kMagic, sizeof kMagic)) throw DictionaryError("header: does not begin with CLKDICT");
  if (const uint32_t version = base::load32(bytes + 8); version != kVersion)
    throw DictionaryError("header: format version " + text(version) + ", but only version 1 is known here");
  if (base::xxh64({bytes, kHashed}, 0) != base::load64(bytes + kHashed))
    throw DictionaryError("header: its hash does not match, the file is damaged");
  DictionaryHeader h;
  h.dtype = base::load32(bytes + 12), h.dim = base::load32(bytes + 16), h.row_bytes = base::load32(bytes + 20);
  h.first_bucket = base::load32(bytes + 24), h.last_bucket = base::load32(bytes + 28);
  h.count = base::load64(bytes + 32), h.deleted = base::load64(bytes + 40), h.blocks = base::load64(bytes + 48);
  h.deleted_blocks = base::load64(bytes + 56), h.values_bytes = base::load64(bytes + 64);
  std::memcpy(h.hashes.data(), bytes + 72, sizeof h.hashes);
  try {
    h.check_shape();
  } catch (const std::invalid_argument &error) {
    throw DictionaryError(std::string("header: ") + error.what());
  }
  for (const uint64_t number : {h.count, h.deleted, h.blocks, h.deleted_blocks})
    if (number > kMaxDictionaryKeys)
      throw DictionaryError("header: " + text(number) + " keys or blocks, expected less than 2^32");
  if (!h.blocks || !h.deleted_blocks) throw DictionaryError("header: a directory without blocks");
  // From here nothing overflows: the other sections are below 2^36 bytes each.
  if (h.values_bytes > kMaxValues) throw DictionaryError("header: values of " + text(h.values_bytes) + " bytes");
  if (h.row_bytes && (h.values_bytes / h.row_bytes != h.count || h.values_bytes % h.row_bytes))
    throw DictionaryError("header: " + text(h.count) + " rows of " + text(h.row_bytes) + " bytes are not " +
                          text(h.values_bytes));
  if (h.end() != file_bytes)
    throw DictionaryError("header: promises " + text(h.end()) + " bytes but there are " + text(file_bytes));
  return h;
}

}  // namespace clickline::dictionary
