/* Reads rows of published tables from cube servers; the same client as clickline's Python one. Link with
 * -lclickline_cube. Every function may be called by any number of threads at once, except that a client must not be
 * closed while a get is under way. */
#ifndef CLICKLINE_CUBE_H
#define CLICKLINE_CUBE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct clickline_cube clickline_cube;

/* What a get returns. */
enum {
  CLICKLINE_CUBE_OK = 0,
  CLICKLINE_CUBE_SOME_FAILED = -2, /* shards: their keys have status 3 */
  CLICKLINE_CUBE_ALL_FAILED = -3,
  CLICKLINE_CUBE_NO_SUCH = -4,     /* no such version or table; nothing was got */
  CLICKLINE_CUBE_ERROR = -5        /* wrong arguments, no memory; nothing was got */
};

/* Of each key. */
enum { CLICKLINE_CUBE_FOUND = 0, CLICKLINE_CUBE_MISSING = 1, CLICKLINE_CUBE_UNKNOWN = 3 };

/* Types of values. u8: fp32 smallest, fp32 largest, then a byte per number. */
enum { CLICKLINE_CUBE_BYTES = 0, CLICKLINE_CUBE_FP32 = 1, CLICKLINE_CUBE_FP16 = 2, CLICKLINE_CUBE_U8 = 3 };

typedef struct {
  const char *name; /* who we are, for the servers' logs */
  const char *job;  /* the deployment's name */
  const void *token;
  size_t token_bytes;
  double timeout; /* seconds of each try; 0: 1.0 */
  double hedge;   /* seconds without an answer after which another replica is asked as well; 0: never */
  int retries;    /* on other replicas, beyond the first try */
} clickline_cube_options;

typedef struct {
  uint64_t version;        /* that all rows are of */
  uint32_t dtype, dim;
  uint32_t row_bytes;      /* 0: values of any size */
  size_t count;            /* of keys */
  const uint8_t *status;   /* [count] */
  const uint64_t *offsets; /* [count + 1] if of any size, else NULL */
  const uint8_t *values;   /* [count * row_bytes], or value i from offsets[i] up to offsets[i + 1] */
  size_t values_bytes;
  void *owner;
} clickline_cube_rows;

/* `shards`: of each shard the addresses of its replicas, with commas between them. NULL if that cannot be, with the
 * reason in `error`. Nobody is asked yet. */
clickline_cube *clickline_cube_open(const char *const *shards, size_t count, const clickline_cube_options *options,
                                    char *error, size_t error_bytes);

/* Rows of the keys, in their order; `version` 0: the current one. Fills `rows`, to be freed, if the result is OK,
 * SOME_FAILED or ALL_FAILED; otherwise `rows` is zeros. `error` may be NULL. */
int clickline_cube_get(clickline_cube *cube, const char *table, const uint64_t *keys, size_t count, uint64_t version,
                       clickline_cube_rows *rows, char *error, size_t error_bytes);
void clickline_cube_free(clickline_cube_rows *rows);

/* Other replicas for a shard, while gets may be under way. 0, or CLICKLINE_CUBE_ERROR. */
int clickline_cube_set_addresses(clickline_cube *cube, size_t shard, const char *replicas);

void clickline_cube_close(clickline_cube *cube);

#ifdef __cplusplus
}
#endif

#endif
