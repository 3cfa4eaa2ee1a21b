// XXH64 against values computed by the reference implementation. If one of these fails, do not change the test.
#include <string>

#include "base/hash.h"
#include "check.h"

using namespace clickline::base;

int main() {
  CHECK_EQ(xxh64("", 0), 0xef46db3751d8e999ull);
  CHECK_EQ(xxh64("", 1), 0xd5afba1336a3be4bull);
  CHECK_EQ(xxh64("a", 0), 0xd24ec4f1a98c6e5bull);
  CHECK_EQ(xxh64("abc", 0), 0x44bc2cf5ad770999ull);
  CHECK_EQ(xxh64("abcd", 0), 0xde0327b0d25d92ccull);
  CHECK_EQ(xxh64("abcdefgh", 0), 0x3ad351775b4634b7ull);
  CHECK_EQ(xxh64("Nobody inspects the spammish repetition", 0), 0xfbcea83c8a378bf1ull);
  CHECK_EQ(xxh64("Nobody inspects the spammish repetition", 0x9e3779b185ebca87ull), 0x9d24e6a5798d51e1ull);

  // Every length from 0 to 200, each with its own seed, folded into one number. Each text is its own allocation
  // of exactly that length, so that a read past the end is seen.
  uint64_t folded = 0;
  for (size_t n = 0; n <= 200; ++n) {
    std::string text(n, '\0');
    for (size_t i = 0; i < n; ++i) text[i] = static_cast<char>((i * 131 + 7) % 256);
    text.shrink_to_fit();
    folded = xxh64({reinterpret_cast<const char *>(&folded), 8}, xxh64(text, n));
  }
  CHECK_EQ(folded, 0xdc4518bf54f1a8c8ull);

  CHECK_EQ(feature_key(slot_seed("C1"), ""), 0x359883bb7e3c4a2eull);
  CHECK_EQ(feature_key(slot_seed("C1"), "68fd1e64"), 0x5b9d2cca195fb7d7ull);
  CHECK_EQ(feature_key(slot_seed("C2"), "68fd1e64"), 0x2c8e50152d9b74e3ull);

  CHECK_EQ(bucket_of(0), 0u);
  CHECK_EQ(bucket_of(1), 2531u);
  CHECK_EQ(bucket_of(42), 3921u);
  CHECK_EQ(bucket_of(uint64_t{1} << 63), 2048u);
  CHECK_EQ(bucket_of(UINT64_MAX), 1564u);
}
