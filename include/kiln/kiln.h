/** @file
 * The C interface (C99): open once, tune once, then call kiln_gemm().
 *
 * D = activation(alpha * op(A) * op(B) + beta * C + bias) + residual
 *
 * Every function may be called from any thread; none exits or throws. Functions that can fail
 * return a kiln_status; kiln_last_error() then names the field and the value that were wrong.
 *
 * A thread that is cancelled (pthread_cancel) inside a call acts on it after the call has returned.
 *
 * Structs grow at their end. Each begins with its size in the caller's header, which the init
 * function stores: a program built against an older header works with a newer library, which uses
 * the defaults for the fields that the program lacks and never writes beyond the size. A field that
 * only a newer header has must be 0 where an older library is called, or the call is refused.
 *
 * Warnings go to stderr, or to the callback of kiln_set_log(); $KILN_LOG = off, error, warn (the
 * default), info or debug sets the level, as kiln_set_log_level() does.
 */
#ifndef KILN_KILN_H
#define KILN_KILN_H

#include <stddef.h>
#include <stdint.h>

#include "kiln/export.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Result of a call. */
typedef enum kiln_status {
  KILN_OK = 0,           /**< done */
  KILN_BAD_INPUT = 1,    /**< a field of the call is wrong */
  KILN_UNSUPPORTED = 2,  /**< well-formed, but no family of kernels covers it */
  KILN_DEVICE = 3,       /**< the device, its driver or the machine refused */
  KILN_COMPILER = 4,     /**< a source did not compile, or no compiler could be loaded */
  KILN_DATABASE = 5,     /**< the database could not be opened, read or written */
  KILN_NOT_TUNED = 6,    /**< KILN_POLICY_ERROR and no exact record */
  KILN_VERIFICATION = 7, /**< a result was wrong */
  KILN_INTERNAL = 8      /**< a defect of kiln's */
} kiln_status;

/** Type of an element, as kiln::DType. */
typedef enum kiln_dtype {
  KILN_FP32 = 0,          /**< IEEE binary32 */
  KILN_FP64 = 1,          /**< IEEE binary64 */
  KILN_FP16 = 2,          /**< IEEE binary16 */
  KILN_BF16 = 3,          /**< bfloat16 */
  KILN_S8 = 4,            /**< signed byte */
  KILN_U8 = 5,            /**< unsigned byte */
  KILN_S32 = 6,           /**< signed 32-bit integer */
  KILN_FP8_E4M3 = 7,      /**< OCP 8-bit float, no infinity */
  KILN_FP8_E5M2 = 8,      /**< OCP 8-bit float */
  KILN_TF32 = 9,          /**< fp32 in memory, multiplied with 10 bits of mantissa */
  KILN_FP8_E4M3FNUZ = 10, /**< gfx942's e4m3: neither infinity nor -0 */
  KILN_FP8_E5M2FNUZ = 11, /**< gfx942's e5m2: neither infinity nor -0 */
  KILN_FP6_E2M3 = 12,     /**< OCP 6-bit float; packed without gaps, lowest bits first */
  KILN_FP6_E3M2 = 13,     /**< OCP 6-bit float; packed without gaps, lowest bits first */
  KILN_FP4_E2M1 = 14,     /**< OCP 4-bit float; packed without gaps, lowest bits first */
  KILN_S4 = 15,           /**< signed 4-bit integer; two to a byte, the first in the low half */
  KILN_U4 = 16            /**< unsigned 4-bit integer; two to a byte, the first in the low half */
} kiln_dtype;

/** How a matrix lies in memory. */
typedef enum kiln_order {
  KILN_ROW_MAJOR = 0,   /**< elements of a row are adjacent */
  KILN_COLUMN_MAJOR = 1 /**< elements of a column are adjacent */
} kiln_order;

/** Function applied after the bias, before the residual. */
typedef enum kiln_activation {
  KILN_ACTIVATION_NONE = 0, /**< none */
  KILN_RELU = 1,            /**< max(x, 0) */
  KILN_GELU_TANH = 2,       /**< GELU, tanh approximation */
  KILN_GELU_ERF = 3,        /**< GELU, exact (erf) */
  KILN_SILU = 4             /**< x / (1 + exp(-x)) */
} kiln_activation;

/** Function of the first of the two products of which a gated problem takes the elementwise
 * product. */
typedef enum kiln_gate {
  KILN_GATE_NONE = 0,      /**< no gate: one product */
  KILN_GATE_RELU = 1,      /**< max(x, 0) */
  KILN_GATE_GELU_TANH = 2, /**< GELU, tanh approximation */
  KILN_GATE_GELU_ERF = 3,  /**< GELU, exact (erf) */
  KILN_GATE_SILU = 4,      /**< x / (1 + exp(-x)): SwiGLU */
  KILN_GATE_SIGMOID = 5,   /**< 1 / (1 + exp(-x)): GLU */
  KILN_GATE_EXPRESSION = 6 /**< the expression, which names acc0 and acc1, makes of both products
                                what D gets; KILN_GATE_NONE beside such a one is taken as this */
} kiln_gate;

/** Where the 2n columns of a gated problem's op(B), and of its bias, stand. */
typedef enum kiln_gate_order {
  KILN_GATE_STACKED = 0,    /**< n columns of the product that goes through the gate, then n of the
                                 other */
  KILN_GATE_INTERLEAVED = 1 /**< alternately, one of either */
} kiln_gate_order;

/** Shape of the bias vector. With groups each has values of its own, behind one another; but a bias
 * per row of KILN_GROUPING_ROWS has m values in all. */
typedef enum kiln_bias {
  KILN_BIAS_NONE = 0,      /**< no bias */
  KILN_BIAS_PER_ROW = 1,   /**< m values, one for each row of D */
  KILN_BIAS_PER_COLUMN = 2 /**< n values, one for each column of op(B), of which a gate has 2n */
} kiln_bias;

/** What elements of an operand of at most eight bits are multiplied by. A line is a row of op(A) or
 * a column of op(B); scales lie as a tight [lines, blocks along k] matrix, or as kiln_scale_order
 * says, batch behind batch. */
typedef enum kiln_scale {
  KILN_SCALE_NONE = 0,       /**< no scales */
  KILN_SCALE_LINE = 1,       /**< an fp32 for each line */
  KILN_SCALE_LINE_128 = 2,   /**< an fp32 for each 128 elements of a line */
  KILN_SCALE_SQUARE_128 = 3, /**< an fp32 for each 128 lines x 128 elements */
  KILN_SCALE_MX_32 = 4,      /**< an e8m0 byte for each 32 elements of a line */
  KILN_SCALE_TENSOR = 5,     /**< an fp32 for the whole operand, in a batch or with groups one for
                                each; with KILN_GROUPING_ROWS one of A, of D and of zero_a for all
                                groups, and one of B for each */
  KILN_SCALE_LINE_32 = 6,    /**< one for each 32 elements of a column of weights */
  KILN_SCALE_LINE_64 = 7     /**< one for each 64 elements of a column of weights */
} kiln_scale;

/** How an operand's scales of KILN_SCALE_LINE_128 lie in memory, batch behind batch. */
typedef enum kiln_scale_order {
  KILN_SCALE_ORDER_LINES = 0,   /**< [lines, blocks along k], row-major and tight */
  KILN_SCALE_ORDER_BLOCKS = 1,  /**< [blocks along k, lines], row-major and tight */
  KILN_SCALE_ORDER_BLOCKS_4 = 2 /**< the same, rows padded to a multiple of four scales */
} kiln_scale_order;

/** Zero points of weights, a B of integers that meets an A of 16 bits; one for each scale and lying
 * as the scales do. An element of B counts as (code - zero point) * scale. */
typedef enum kiln_zero {
  KILN_ZERO_NONE = 0,    /**< no zero points: they count as 0 */
  KILN_ZERO_INTEGER = 1, /**< of B's type; four bits each lie side by side without gaps */
  KILN_ZERO_FLOATING = 2 /**< of the scales' type */
} kiln_zero;

/** What the `batch` products of a grouped problem are. How many rows, or how much of k, each group
 * has kiln_operands.groups says, in memory of the device, when the call runs. */
typedef enum kiln_grouping {
  KILN_GROUPING_NONE = 0, /**< no groups: a batch of equal products */
  KILN_GROUPING_ROWS = 1, /**< the rows of all groups are those of one A and one D; `groups` has the
                               row behind the last one of each, rising and at most m; each
                               group begins behind all before it, whatever the list says */
  KILN_GROUPING_MASKED = 2, /**< each group has an A and a D of m rows; `groups` has the number of
                                 those that are there */
  KILN_GROUPING_K =
      3, /**< the k of all groups is that of one A and one B, and each has a D; `groups`
              has the index along k behind the last one of each, rising and at most k; blocks of
              scales divide all of k, and element p has the scale of block p / 128 */
  KILN_GROUPING_LIST = 4 /**< each product has sizes, leading dimensions and operands of its own,
                              which kiln_operands.list gives; m, n and k are the largest */
} kiln_grouping;

/** Where the rows of A of a product with KILN_GROUPING_ROWS are. */
typedef enum kiln_gather {
  KILN_GATHER_NONE = 0, /**< in order: row r of the product is computed of row r of A */
  KILN_GATHER_ROWS = 1  /**< row r is computed of row index_a[r] of A */
} kiln_gather;

/** Where the rows of D of a product with KILN_GROUPING_ROWS go. */
typedef enum kiln_scatter {
  KILN_SCATTER_NONE = 0, /**< in order: row r of the product is row r of D */
  KILN_SCATTER_ROWS = 1, /**< row r is written to row index_d[r] of D; those of a group's rows are
                              distinct, and rows of D that none names are not written */
  KILN_SCATTER_ADD = 2,  /**< row r is added to row index_d[r] of D, in the order of r; a row of D
                              that none names is beta * C, and a negative index names none */
  KILN_SCATTER_WEIGHTED = 3 /**< the same, each row times row_weights[r] before */
} kiln_scatter;

/** How much of its types a product must keep. */
typedef enum kiln_numerics {
  KILN_NUMERICS_IEEE = 0, /**< what the type gives: 8-bit floats are summed in fp32 after each 128
                               elements of k */
  KILN_NUMERICS_FAST = 1, /**< 8-bit floats may be summed along all of k in the few bits of a tensor
                               core's accumulator, as with CUBLASLT_MATMUL_DESC_FAST_ACCUM; scales
                               of weights, and weights times these, may be rounded to A's dtype */
  KILN_NUMERICS_TENSOR = 2 /**< fp32 may be multiplied by tensor cores in parts of half precision,
                                each line scaled by a power of two: errors of fp32's size, but an
                                element below 2^-29 of the largest of its line keeps 2^-51 of that
                                largest one, and an infinity counts as NaN */
} kiln_numerics;

/** What kiln_gemm() does when the exact problem was never tuned. */
typedef enum kiln_policy {
  KILN_POLICY_USE_BEST_KNOWN = 0,     /**< run the best kernel known without tuning */
  KILN_POLICY_TUNE_NOW = 1,           /**< tune in the call, then run */
  KILN_POLICY_TUNE_IN_BACKGROUND = 2, /**< run the best known kernel, tune on another thread */
  KILN_POLICY_ERROR = 3               /**< return KILN_NOT_TUNED */
} kiln_policy;

/** How grave a message is: a level shows itself and those before it. */
typedef enum kiln_log_level {
  KILN_LOG_OFF = 0,   /**< none */
  KILN_LOG_ERROR = 1, /**< what failed */
  KILN_LOG_WARN = 2,  /**< what the program should know */
  KILN_LOG_INFO = 3,  /**< what happens */
  KILN_LOG_DEBUG = 4  /**< details */
} kiln_log_level;

/** Hears a message: one sentence, valid during the call. */
typedef void (*kiln_log_callback)(void* user, kiln_log_level level, const char* message);
/** Hears of an untuned problem (its text) before it is computed, on the thread of the call. */
typedef void (*kiln_untuned_callback)(void* user, const char* problem);

/** Hears of calls that were counted: the problem's text, the threads of the calls (on a GPU its
 * multiprocessors), how many there were, and the mean time in ns of those that were timed; 0: none
 * was. */
typedef void (*kiln_calls_callback)(void* user, const char* problem, int threads, int64_t calls,
                                    double ns_per_call);

/** One of the problem's three sizes. */
typedef enum kiln_size {
  KILN_SIZE_M = 0, /**< rows of D */
  KILN_SIZE_N = 1, /**< columns of D */
  KILN_SIZE_K = 2  /**< columns of op(A) */
} kiln_size;

/** One matrix as stored. */
typedef struct kiln_matrix {
  kiln_dtype dtype;     /**< of its elements */
  kiln_order order;     /**< row- or column-major */
  int transposed;       /**< 1: the transpose of what enters the product is stored */
  int64_t ld;           /**< elements between rows (row-major) or columns; 0 = tight */
  int64_t batch_stride; /**< elements between batches; 0 = tight */
} kiln_matrix;

/** The problem. Set it with kiln_gemm_desc_init(), then change fields. A is m x k, B k x n, C and D
 * m x n, sizes in elements. */
typedef struct kiln_gemm_desc {
  size_t size;                /**< bytes, as in the caller's header; set by the init function */
  int64_t m;                  /**< rows of D */
  int64_t n;                  /**< columns of D */
  int64_t k;                  /**< columns of op(A), rows of op(B) */
  int64_t batch;              /**< products of the same shape */
  kiln_matrix a;              /**< A as stored */
  kiln_matrix b;              /**< B as stored */
  kiln_matrix c;              /**< C as stored, in D's order */
  kiln_matrix d;              /**< D as stored */
  kiln_dtype accumulator;     /**< type in which products are accumulated */
  kiln_bias bias;             /**< fp32 values; fp64 when the accumulator is; see bias_as_d */
  kiln_activation activation; /**< applied after the bias */
  int residual;               /**< 1: a matrix stored exactly as D is added last */
  int alignment;      /**< bytes: a power of two that divides the addresses of A, B, C, D and the
                         residual, up to 16 those of scales of blocks along k; 1 = none */
  int b_packed;       /**< 1: B comes from kiln_pack_b() */
  kiln_scale scale_a; /**< scales of A */
  kiln_scale scale_b; /**< scales of B */
  int bias_as_d;      /**< 1: the bias has D's dtype, which is then fp16 or bf16 */
  kiln_numerics numerics; /**< KILN_NUMERICS_FAST needs two operands of 8-bit floats without scales
                             of blocks along k, or a B of weights; KILN_NUMERICS_TENSOR two of
                             fp32 */
  kiln_gate gate;         /**< op(B) then has 2n columns, of two products of A, and D is gate(one)
                             times the other, plus the residual; no C, no activation, D row-major */
  kiln_gate_order gate_order; /**< of op(B)'s columns, where there is a gate */
  kiln_dtype scale_type;      /**< of the scales of weights: KILN_FP32, KILN_BF16 or KILN_FP16;
                                 KILN_FP32 beside KILN_SCALE_MX_32 */
  kiln_zero zero;             /**< zero points of weights */
  kiln_grouping
      grouping;          /**< what the `batch` products are; with groups a bias has values of
                            each group's own (but see kiln_bias), D is row-major and B is not
                            packed; groups of k     have no gate, no weights and no KILN_SCALE_MX_32 */
  int64_t expected_rows; /**< of a masked group, on average: kernels are timed and chosen for so
                            many; 0: half of m */
  kiln_scale scale_d; /**< scales of D, which is then KILN_FP8_E4M3 or KILN_S8: KILN_SCALE_TENSOR is
                         read, KILN_SCALE_LINE (one a row) and KILN_SCALE_LINE_128 (one for 128
                         elements of a row) are written; no C, no residual, D row-major */
  kiln_scale zero_a; /**< zero points of an A of KILN_S8 or KILN_U8 that has scales: KILN_SCALE_LINE
                        (one a row) or KILN_SCALE_TENSOR; an element counts as (code - zero point)
                        * scale; D row-major */
  kiln_gather gather;   /**< with KILN_GROUPING_ROWS; rows of A are lines of memory */
  kiln_scatter scatter; /**< with KILN_GROUPING_ROWS; no C, no residual, no scale_d */
  int64_t rows_of_a;    /**< rows of A with a gather; 0: m */
  int64_t rows_of_d;    /**< rows of D with a scatter; 0: m */
  int amax_d;           /**< 1: the largest |value| of D, before it is rounded and divided by a
                           scale, is written too; D of floats, or KILN_SCALE_TENSOR */
  kiln_scale_order scale_order_a; /**< of scales of A that are KILN_SCALE_LINE_128; B holds no
                                     weights, and there is no gather */
  kiln_scale_order scale_order_b; /**< as scale_order_a, of B */
  int expression; /**< of kiln_expression_parse(), in place of bias, activation, residual and gate
                     (but see KILN_GATE_EXPRESSION); 0: none. No list of products, no scale_d
                     and no amax_d */
} kiln_gemm_desc;

/** How to open. Set it with kiln_options_init(). */
typedef struct kiln_options {
  size_t size;          /**< bytes, as in the caller's header; set by the init function */
  const char* device;   /**< "cpu", "cuda:N", "hip:N" */
  const char* database; /**< NULL: $KILN_DB, else $XDG_CACHE_HOME/kiln/kiln.db */
  const char* shipped;  /**< read-only databases, colon-separated; NULL: $KILN_DB_PATH, else
                             those that were installed with kiln */
  kiln_policy policy;   /**< what to do on a miss */
  int any_order;        /**< 1: kernels whose summation order varies between runs are allowed */
  int threads;          /**< of calls that name none; 0 = every core this process may use */
  int allow_vendor;     /**< 1: the vendor's library may be called where it won the race */
  const char* record;   /**< file to which calls are added, by problem; NULL: $KILN_RECORD;
                             ":memory:": counted for kiln_counted_calls() alone */
  int batch_invariant;  /**< 1: a row of D has the same bits whatever m is and wherever the row
                             stands; not with any_order */
  kiln_untuned_callback on_untuned; /**< told once about each untuned problem; NULL: a warning */
  void* untuned_user;               /**< first argument of on_untuned */
} kiln_options;

/** Step of a search. */
typedef enum kiln_stage {
  KILN_STAGE_SPACE = 0,   /**< the legal configs are listed */
  KILN_STAGE_COMPILE = 1, /**< candidates are compiled */
  KILN_STAGE_SCREEN = 2,  /**< candidates are timed a few times */
  KILN_STAGE_VERIFY = 3,  /**< results are verified */
  KILN_STAGE_RACE = 4,    /**< finalists are timed interleaved */
  KILN_STAGE_DONE = 5     /**< the search has ended */
} kiln_stage;

/** State of a search; see kiln_tune_options. */
typedef struct kiln_progress {
  kiln_stage stage;        /**< the step that reports */
  int done;                /**< candidates of this step that are done */
  int total;               /**< candidates of this step */
  double seconds;          /**< since the call began */
  double best_ns;          /**< best median so far; 0 = none */
  const char* best_config; /**< canonical text; valid during the callback */
} kiln_progress;

/** How a GPU is loaded while finalists are timed; see kiln::TuningPolicy. */
typedef enum kiln_tuning_policy {
  KILN_TUNING_COOL = 0,      /**< pauses between samples keep it at its highest clock */
  KILN_TUNING_SUSTAINED = 1, /**< back to back, at the clock that the power limit leaves; refused
                                for CPUs and for ranges */
  KILN_TUNING_AUTOMATIC = 2  /**< sustained for problems that are bound by power, else cool */
} kiln_tuning_policy;

/** How to tune. Set it with kiln_tune_options_init(). Callbacks run on the thread of the call; they
 * may call kiln_gemm(), not kiln_tune_with(). */
typedef struct kiln_tune_options {
  size_t size;    /**< bytes, as in the caller's header; set by the init function */
  double seconds; /**< budget; <= 0: 10 s for a problem, a minute for a range */
  uint64_t seed;  /**< of the order of candidates and of the data; 1 after init */
  int threads;    /**< 0 = the engine's default */
  int force;      /**< 1: search anew even where a valid record exists */
  void (*progress)(void* user, const kiln_progress* state); /**< told of every step, or NULL */
  int (*cancelled)(void* user); /**< asked between candidates; 1 stops and keeps what is known */
  void* user;                   /**< first argument of both */
  int race; /**< 1: where a valid record exists, time its kernel again beside the library (cuBLASLt,
                 the system's BLAS), without a further search; not for ranges */
  int candidates; /**< most candidates of the problem's search in all, those of earlier calls
                       included; of a range, of each of its searches; 0: any number */
  kiln_tuning_policy policy; /**< of the race; a problem's record of a race under load is the one
                                  that kiln_gemm() uses */
  int reserved;              /**< 0 */
} kiln_tune_options;

/** An open engine; see kiln_open(). */
typedef struct kiln_engine kiln_engine;
/** A problem bound to its kernel; see kiln_plan_make(). */
typedef struct kiln_plan kiln_plan;
/** Calls of a problem that are made elsewhere; see kiln_call_log_make(). */
typedef struct kiln_call_log kiln_call_log;
/** All problems of a range; see kiln_range_plan_make(). */
typedef struct kiln_range_plan kiln_range_plan;
/** A packed copy of B, for every m; see kiln_pack_b(). */
typedef struct kiln_packed_b kiln_packed_b;

/** One product of a list (KILN_GROUPING_LIST), of the problem's types, layouts and epilogue: sizes
 * from 0 to the problem's, leading dimensions in elements (0: tight), first elements of operands.
 * With k = 0 scales of lines and tensors are read, and must be finite.
 * No D overlaps another or what any product reads, but C may be the D of its own product. */
typedef struct kiln_list_entry {
  int64_t m;            /**< rows of D */
  int64_t n;            /**< columns of D */
  int64_t k;            /**< columns of op(A) */
  int64_t lda;          /**< of A */
  int64_t ldb;          /**< of B */
  int64_t ldc;          /**< of C */
  int64_t ldd;          /**< of D and the residual */
  const void* a;        /**< A */
  const void* b;        /**< B */
  const void* c;        /**< C; not read when beta is 0 */
  void* d;              /**< D */
  const void* bias;     /**< the bias vector */
  const void* residual; /**< the residual matrix */
  const void* scale_a;  /**< scales of A, of this product's m and k, 4-byte aligned */
  const void* scale_b;  /**< scales of B, likewise */
  void* scale_d;        /**< scales of D, likewise: read for KILN_SCALE_TENSOR, else written */
} kiln_list_entry;

/** Operands of one call. Set it with kiln_operands_init(). Pointers are to the first element; on a
 * GPU all of them are the device's, and a call returns when it is in the stream. */
typedef struct kiln_operands {
  size_t size;                   /**< bytes, as in the caller's header; set by the init function */
  const void* a;                 /**< A */
  const void* b;                 /**< B */
  const kiln_packed_b* packed_b; /**< instead of b, for a problem with b_packed */
  const void* c;                 /**< may be d; not read when beta is 0 */
  void* d;                       /**< must overlap no other operand */
  const void* bias;              /**< the bias vector */
  const void* residual;          /**< the residual matrix */
  double alpha;                  /**< factor of the product; 1 after init. 0 is a factor like any
                                    other, unlike in BLAS: A and B are read, and a NaN or an
                                    infinity in them makes NaN in D */
  double beta;                   /**< factor of C; 0 after init */
  int threads;                   /**< 0 = the engine's default */
  void* stream;                  /**< a cudaStream_t or CUstream; NULL: the default stream */
  void* workspace;               /**< 256-byte aligned, or NULL: the engine keeps one for each
                                    stream and thread, and for each capture */
  int64_t workspace_bytes;       /**< bytes of the workspace */
  const void* scale_a;           /**< scales of A, 4-byte aligned, see alignment */
  const void* scale_b;           /**< scales of B, as those of A; of weights as their type */
  const void* zero_b;            /**< zero points of weights */
  const void* groups;            /**< of a grouped problem: an int32 for each group */
  void* scale_d;                 /**< scales of D, fp32: read for KILN_SCALE_TENSOR, else written */
  const void* zero_a;            /**< zero points of A, int32 */
  const void* column_sums_b;     /**< beside zero_a: the sum of each column of B, int32, as
                                    kiln_column_sums() makes them */
  const void* index_a;           /**< with a gather: an int32 for each of m rows, its row of A */
  const void* index_d;           /**< with a scatter: an int32 for each of m rows, its row of D */
  void* amax_d;                  /**< with amax_d: one fp32, written; NaN where D has one */
  const void* row_weights;       /**< with KILN_SCATTER_WEIGHTED: an fp32 for each of m rows */
  const kiln_list_entry* list; /**< with KILN_GROUPING_LIST, in place of all other pointers but the
                                  workspace: `batch` entries in memory of the host, which the
                                  call reads before it returns */
  const void* extra[8]; /**< with an expression: its operands, in the order in which they are met in
                           its canonical text, kiln_expression_text(); those with `:host` in memory
                           of the host, which the call reads before it returns */
  void* outputs[4];     /**< what it stores beside D, y0, y1, ... of that text; overlapping no other
                           operand */
} kiln_operands;

/** What kiln_tune() found. */
typedef struct kiln_tune_report {
  size_t size;       /**< bytes, as in the caller's header; set by the init function */
  double median_ns;  /**< of one call */
  double low_ns;     /**< lower end of the median's 95 % interval */
  double high_ns;    /**< upper end of it */
  int measured;      /**< candidates with a time */
  int failed;        /**< candidates without */
  int already_tuned; /**< 1: a valid record was there, nothing ran */
  double seconds;    /**< spent in the call */
  char config[256];  /**< canonical text of the winner, cut to fit */
  int stored;        /**< 1: later processes find the winner in a database; 0: the winner is lost
                        when this engine is closed, and the first warning says so */
  int warning_count; /**< what went wrong without touching the result: a read-only database, … */
  char warnings[2048]; /**< all of them, one a line, cut to fit */
  double joules; /**< energy of the whole device for a call, of a race under load; 0: not known */
  int sm_mhz;    /**< median clock of a GPU's multiprocessors in that race; 0: not known */
  int reserved;  /**< 0 */
} kiln_tune_report;

/** Called by kiln_gemm_desc_init(). `size` is the struct's size in the caller's header; no byte
 * beyond it is written. For languages that cannot call inline C. */
KILN_API void kiln_gemm_desc_init_sized(kiln_gemm_desc* desc, size_t size, int64_t m, int64_t n,
                                        int64_t k, int dtype);
/** Called by kiln_options_init(); see kiln_gemm_desc_init_sized(). */
KILN_API void kiln_options_init_sized(kiln_options* options, size_t size);
/** Called by kiln_operands_init(); see kiln_gemm_desc_init_sized(). */
KILN_API void kiln_operands_init_sized(kiln_operands* operands, size_t size);
/** Called by kiln_tune_report_init(); see kiln_gemm_desc_init_sized(). */
KILN_API void kiln_tune_report_init_sized(kiln_tune_report* report, size_t size);
/** Called by kiln_tune_options_init(); see kiln_gemm_desc_init_sized(). */
KILN_API void kiln_tune_options_init_sized(kiln_tune_options* options, size_t size);

/** Row-major, tight, one batch; the usual accumulator and output of `dtype` (KILN_S8: s8*s8 to s32,
 * KILN_U8: u8*s8 to s32). Not validated: the call that uses it does that. */
static inline void kiln_gemm_desc_init(kiln_gemm_desc* desc, int64_t m, int64_t n, int64_t k,
                                       kiln_dtype dtype) {
  kiln_gemm_desc_init_sized(desc, sizeof *desc, m, n, k, (int)dtype);
}
/** The defaults of an engine. */
static inline void kiln_options_init(kiln_options* options) {
  kiln_options_init_sized(options, sizeof *options);
}
/** No operands, alpha 1, beta 0. */
static inline void kiln_operands_init(kiln_operands* operands) {
  kiln_operands_init_sized(operands, sizeof *operands);
}
/** An empty report. */
static inline void kiln_tune_report_init(kiln_tune_report* report) {
  kiln_tune_report_init_sized(report, sizeof *report);
}

/** The defaults of tuning. */
static inline void kiln_tune_options_init(kiln_tune_options* options) {
  kiln_tune_options_init_sized(options, sizeof *options);
}

/** From now on `callback` gets the messages of this process, in place of stderr; NULL gives them
 * back. When it returns, the callback before is not running any more, except on this thread from
 * inside of it. Messages come from any thread, several at once. */
KILN_API void kiln_set_log(kiln_log_callback callback, void* user);
/** Lets messages up to this level through, whatever $KILN_LOG says. Errors: KILN_BAD_INPUT. */
KILN_API kiln_status kiln_set_log_level(kiln_log_level level);

/** From now on calls of this process with more than one thread run on the program's own pool; NULL
 * gives them back to kiln's. `run` runs task(context, i) for i = 0 .. count - 1, all at once, for
 * they wait for one another, and returns 1 when all have returned; or 0, with nothing run, where it
 * cannot: the calling thread computes alone then. It is called by any thread, several at once. What
 * was lent stays usable until the process ends. */
KILN_API void kiln_lend_threads(int (*run)(void* pool, int count,
                                           void (*task)(void* context, int index), void* context),
                                void* pool);
/** From now on workspaces of calls on CPUs come from `allocate` (NULL from it is the error of that
 * call) and go back to `release`; NULL: kiln's own. `alignment` is a power of two. Both are called
 * by any thread, several at once, until the process ends. */
KILN_API void kiln_lend_memory(void* (*allocate)(void* user, size_t bytes, size_t alignment),
                               void (*release)(void* user, void* memory, size_t bytes), void* user);

/** Opens the databases. `options` may be NULL. *engine is NULL on failure.
 * Errors: KILN_BAD_INPUT (device, threads), KILN_DATABASE, KILN_DEVICE. */
KILN_API kiln_status kiln_open(const kiln_options* options, kiln_engine** engine);
/** Waits for background tuning to stop. NULL is allowed. Plans and packed matrices outlive it. */
KILN_API void kiln_close(kiln_engine* engine);

/** Searches, verifies, stores. `seconds` <= 0: the default budget, 10 s. `threads` 0: the engine's
 * default. `report` may be NULL; warnings that it does not hold go to stderr. A winner that could
 * not be stored is not an error: see kiln_tune_report.stored. Errors: any. */
KILN_API kiln_status kiln_tune(kiln_engine* engine, const kiln_gemm_desc* desc, double seconds,
                               int threads, kiln_tune_report* report);

/** kiln_tune() with options; NULL: the defaults. Errors: any. */
KILN_API kiln_status kiln_tune_with(kiln_engine* engine, const kiln_gemm_desc* desc,
                                    const kiln_tune_options* options, kiln_tune_report* report);

/** The same for all problems whose `size` runs from `first` to `last` (desc's own value of it is
 * not read): a few kernels and a table that says which serves which size; kiln_gemm() of any of
 * them uses it. `seconds` <= 0: a minute, for all of it. In the report, config counts the kernels
 * and median_ns is that of the largest size. Errors: any. */
KILN_API kiln_status kiln_tune_range(kiln_engine* engine, const kiln_gemm_desc* desc,
                                     kiln_size size, int64_t first, int64_t last, double seconds,
                                     int threads, kiln_tune_report* report);

/** Runs one product. On a CPU it returns when D is written, and all its threads compute in the
 * floating-point mode of the calling one (rounding, denormals); on a GPU it returns when the work
 * is in the stream. Errors: KILN_BAD_INPUT (the problem, null or overlapping operands),
 * KILN_UNSUPPORTED, KILN_NOT_TUNED. */
KILN_API kiln_status kiln_gemm(kiln_engine* engine, const kiln_gemm_desc* desc,
                               const kiln_operands* operands);

/** kiln_tune_range() with options; NULL: the defaults. Errors: any. */
KILN_API kiln_status kiln_tune_range_with(kiln_engine* engine, const kiln_gemm_desc* desc,
                                          kiln_size size, int64_t first, int64_t last,
                                          const kiln_tune_options* options,
                                          kiln_tune_report* report);

/** Binds a problem to the kernel that kiln_gemm() would use now; release with kiln_plan_free(). */
KILN_API kiln_status kiln_plan_make(kiln_engine* engine, const kiln_gemm_desc* desc, int threads,
                                    kiln_plan** plan);
/** Runs a plan. Errors: KILN_BAD_INPUT (null or overlapping operands). */
KILN_API kiln_status kiln_plan_run(const kiln_plan* plan, const kiln_operands* operands);
/** Bytes of workspace that a call needs on a GPU; 0 on the CPU. */
KILN_API int64_t kiln_plan_workspace_bytes(const kiln_plan* plan);
/** The stored race of exactly this problem and number of threads between the plan's kernel and the
 * library that a program would call else (the system's BLAS, cuBLASLt), of the build that this
 * process has: medians of a call in nanoseconds. 0 and nothing written where there was no such
 * race. Opens the library. */
KILN_API int kiln_plan_library_race(const kiln_plan* plan, double* kernel_ns, double* library_ns);
/** Releases a plan. NULL is allowed. */
KILN_API void kiln_plan_free(kiln_plan* plan);

/** Binds all problems of a range, tuned or not: the kernels of its table are loaded now, and the
 * size is an argument of each call. Release with kiln_range_plan_free(). */
KILN_API kiln_status kiln_range_plan_make(kiln_engine* engine, const kiln_gemm_desc* desc,
                                          kiln_size size, int64_t first, int64_t last, int threads,
                                          kiln_range_plan** plan);
/** Runs the problem of one size. Errors: KILN_BAD_INPUT (a size outside the range, null or
 * overlapping operands), and those of kiln_gemm(). */
KILN_API kiln_status kiln_range_plan_run(const kiln_range_plan* plan, int64_t size,
                                         const kiln_operands* operands);
/** Bytes of workspace that a call of any size of the table needs at most on a GPU; 0 on the CPU. */
KILN_API int64_t kiln_range_plan_workspace_bytes(const kiln_range_plan* plan);
/** Releases a plan of a range. NULL is allowed. */
KILN_API void kiln_range_plan_free(kiln_range_plan* plan);

/** Tells what was counted since the engine was opened, problem by problem; nothing where calls are
 * not recorded (kiln_options::record). The callback may call any function. */
KILN_API kiln_status kiln_counted_calls(kiln_engine* engine, kiln_calls_callback tell, void* user);
/** Where calls of a problem that are not made through this engine, but in another library say, are
 * counted in the file of recorded calls. *log is NULL where calls are not recorded. Release with
 * kiln_call_log_free(). */
KILN_API kiln_status kiln_call_log_make(kiln_engine* engine, const kiln_gemm_desc* desc,
                                        int threads, kiln_call_log** log);
/** 1 where this thread's next call is to be timed; 0 for NULL. */
KILN_API int kiln_call_log_wants_time(const kiln_call_log* log);
/** Counts one call that took `ns`; 0: it was not timed. NULL is allowed. */
KILN_API void kiln_call_log_add(const kiln_call_log* log, double ns);
/** Releases a log; what it counted is kept. NULL is allowed. */
KILN_API void kiln_call_log_free(kiln_call_log* log);

/** Packs B (stored as desc->b says) for calls with desc->b_packed = 1 and the same n, k, batch and
 * type of B, whatever their m, threads and epilogue. `threads`: how many pack; 0 = the engine's
 * default. Release with kiln_packed_b_free(). CPU only: on a GPU unsupported. */
KILN_API kiln_status kiln_pack_b(kiln_engine* engine, const kiln_gemm_desc* desc, const void* b,
                                 int threads, kiln_packed_b** packed);
/** Bytes of the packed copy. */
KILN_API size_t kiln_packed_b_bytes(const kiln_packed_b* packed);
/** Releases a packed matrix. NULL is allowed. */
KILN_API void kiln_packed_b_free(kiln_packed_b* packed);

/** Writes the sum of each column of op(B) (stored as desc->b says) for
 * kiln_operands::column_sums_b: batch times as many as op(B) has columns, one product's behind
 * another's. Made once for weights that stay, on the CPU. Errors: KILN_BAD_INPUT, KILN_UNSUPPORTED
 * (A and B are not integers). */
KILN_API kiln_status kiln_column_sums(const kiln_gemm_desc* desc, const void* b, int32_t* sums);

/** What follows a product, as text: `d=gelu(acc+b[n])+r[m,n]` (the guide has the language). Writes
 * a number for kiln_gemm_desc::expression, of this process; equal expressions have equal numbers,
 * which are never released. Errors: KILN_BAD_INPUT, naming the column of the text;
 * KILN_UNSUPPORTED, more than 32,768 of them in one process. */
KILN_API kiln_status kiln_expression_parse(const char* text, int* expression);
/** The text that all equal expressions have, whose operands are x0, x1, … as kiln_operands::extra
 * has them; valid for ever. NULL: there is no such expression. */
KILN_API const char* kiln_expression_text(int expression);

/** The kernel's config and source, why it was chosen, and the configs that were slower, as text;
 * release with kiln_string_free(). */
KILN_API kiln_status kiln_explain(kiln_engine* engine, const kiln_gemm_desc* desc, int threads,
                                  char** text);
/** The kernel's source alone, as text; release with kiln_string_free(). Errors: KILN_UNSUPPORTED
 * (a plain loop or the vendor's library would run). */
KILN_API kiln_status kiln_source(kiln_engine* engine, const kiln_gemm_desc* desc, int threads,
                                 char** text);
/** Releases a text of kiln_explain() or kiln_source(). NULL is allowed. */
KILN_API void kiln_string_free(char* text);

/** One sentence about this thread's last failed call; "" before the first. Valid until the next. */
KILN_API const char* kiln_last_error(void);
/** Name of a status, as "bad input". */
KILN_API const char* kiln_status_name(kiln_status status);
/** File of the BLAS library that is raced beside CPU kernels ($KILN_BLAS, else the best that is
 * installed, never kiln's own hook); "" where there is none. Opens it. */
KILN_API const char* kiln_blas_library(void);
/** "major.minor.patch" */
KILN_API const char* kiln_version(void);

#ifdef __cplusplus
}
#endif

#endif /* KILN_KILN_H */
