// oneDNN 3's interface for C, as far as kiln calls it: slow and right. It complains of arguments
// that the real library would refuse or misread, and counts objects that are not destroyed. Memory
// layouts that it may choose itself are transposed and padded. Knows nothing of kiln.
//
// FAKE_ONEDNN_VERSION ("4.0.0") and FAKE_ONEDNN_RUNTIME (a bit of cpu_runtime) change what it says
// of itself. Compiled with FAKE_ONEDNN_LACKS_MATMUL it has no matmul.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace {

enum Status { kSuccess = 0, kInvalid = 2, kUnimplemented = 3 };
enum Type { kFp16 = 1, kBf16 = 2, kFp32 = 3, kS32 = 4, kS8 = 5, kU8 = 6 };
constexpr int kMaxDims = 12;

struct Version {
  int major, minor, patch;
  const char* hash;
  unsigned cpu_runtime, gpu_runtime;
};

int live = 0;  // descriptors, memories and primitives
int threads = 0, threads_at_execute = 0;
std::string complaint;

Status complain(const std::string& what) {
  if (complaint.empty()) complaint = what;
  return kInvalid;
}

struct Counted {
  Counted() { ++live; }
  Counted(const Counted&) { ++live; }
  Counted& operator=(const Counted&) = default;
  ~Counted() { --live; }
};

struct Descriptor : Counted {
  int dims = 0, type = 0;
  bool any_layout = false;
  std::int64_t sizes[kMaxDims]{}, strides[kMaxDims]{};

  std::int64_t rows() const { return sizes[dims - 2]; }
  std::int64_t cols() const { return sizes[dims - 1]; }
  std::int64_t batch() const { return dims == 3 ? sizes[0] : 1; }
  std::int64_t at(std::int64_t t, std::int64_t i, std::int64_t j) const {
    return (dims == 3 ? t * strides[0] : 0) + i * strides[dims - 2] + j * strides[dims - 1];
  }
  std::size_t elements() const { return std::size_t(at(batch() - 1, rows() - 1, cols() - 1)) + 1; }
  /// Rows become contiguous, with room behind each column.
  void choose_layout() {
    any_layout = false;
    strides[dims - 2] = 1;
    strides[dims - 1] = rows() + 3;
    if (dims == 3) strides[0] = cols() * (rows() + 3) + 5;
  }
};
struct Memory : Counted {
  Descriptor of;
  std::byte* data = nullptr;
};
struct PostOp {
  int algorithm = 0;
  double alpha = 0, beta = 0;
  Descriptor other;  // of a binary one
};
struct PostOps : Counted {
  std::vector<PostOp> chain;
};
struct Attributes : Counted {
  std::vector<PostOp> chain;
};
struct PrimitiveDescriptor : Counted {
  bool reorder = false;
  Descriptor a, b, d;
  std::vector<PostOp> chain;
};
struct Primitive : Counted {
  PrimitiveDescriptor of;
};
struct Engine {
} engine;
struct Stream {
} stream;
struct Argument {
  int index;
  Memory* memory;
};
constexpr int kBinary = 0x1fff0;
/// DNNL_ARG_ATTR_MULTIPLE_POST_OP(step) | DNNL_ARG_SRC_1
int argument_of(std::size_t step) { return (32768 * (int(step) + 1)) | 2; }

std::size_t bytes_of(int type) { return type == kFp16 || type == kBf16 ? 2 : type < kS8 ? 4 : 1; }

double load(const Memory& m, std::int64_t at) {
  const std::byte* p = m.data + std::size_t(at) * bytes_of(m.of.type);
  if (m.of.type == kS8) return double(static_cast<std::int8_t>(*p));
  if (m.of.type == kU8) return double(static_cast<std::uint8_t>(*p));
  std::uint32_t bits = 0;
  std::memcpy(&bits, p, bytes_of(m.of.type));
  if (m.of.type == kS32) return double(static_cast<std::int32_t>(bits));
  if (m.of.type == kBf16) bits <<= 16;
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

void store(const Memory& m, std::int64_t at, double value) {
  std::byte* p = m.data + std::size_t(at) * bytes_of(m.of.type);
  const auto single = static_cast<float>(value);
  const auto whole = static_cast<std::int32_t>(std::lrint(value));
  std::uint32_t bits;
  std::memcpy(&bits, &single, sizeof bits);
  if (m.of.type == kBf16) bits = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
  if (m.of.type >= kS32) std::memcpy(&bits, &whole, sizeof bits);
  std::memcpy(p, &bits, bytes_of(m.of.type));
}

Status describe(Descriptor** made, int dims, const std::int64_t* sizes, int type) {
  if ((dims != 2 && dims != 3) || type < kFp16 || type > kU8)
    return complain("a descriptor of " + std::to_string(dims) + " dimensions, type " +
                    std::to_string(type));
  *made = new Descriptor;
  (*made)->dims = dims;
  (*made)->type = type;
  std::memcpy((*made)->sizes, sizes, sizeof(std::int64_t) * std::size_t(dims));
  return kSuccess;
}

double eltwise(const PostOp& op, double x) {
  switch (op.algorithm) {
    case 0x20:
      return std::max(x, op.alpha * x);
    case 0x21:
      return std::tanh(x);
    case 0x23:
      return x * x;
    case 0x24:
      return std::abs(x);
    case 0x25:
      return std::sqrt(x);
    case 0x26:
      return op.alpha * x + op.beta;
    case 0x29:
      return 1 / (1 + std::exp(-x));
    case 0x2a:
      return std::exp(x);
    case 0x2b:
      return 0.5 * x * (1 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
    case 0x2c:
      return x / (1 + std::exp(-op.alpha * x));
    case 0x2d:
      return std::log(x);
    case 0x2e:
      return std::min(std::max(x, op.alpha), op.beta);
    case 0x31:
      return 0.5 * x * std::erfc(-0.7071067811865476 * x);
    case 0x32:
      return std::nearbyint(x);
    default:
      complain("function " + std::to_string(op.algorithm));
      return x;
  }
}
double binary(const PostOp& op, double x, double y) {
  switch (op.algorithm - kBinary) {
    case 0:
      return x + y;
    case 1:
      return x * y;
    case 2:
      return std::max(x, y);
    case 3:
      return std::min(x, y);
    case 4:
      return x / y;
    default:
      return x - y;
  }
}
/// The element of an operand whose sizes are 1 where all share one.
double other_of(const Memory& m, std::int64_t t, std::int64_t i, std::int64_t j) {
  const Descriptor& d = m.of;
  return load(m, d.at(d.batch() > 1 ? t : 0, d.rows() > 1 ? i : 0, d.cols() > 1 ? j : 0));
}

Status multiply(const Memory& a, const Memory& b, const Memory& d, const std::vector<PostOp>& chain,
                const std::vector<const Memory*>& others) {
  for (std::int64_t t = 0; t < d.of.batch(); ++t)
    for (std::int64_t i = 0; i < d.of.rows(); ++i)
      for (std::int64_t j = 0; j < d.of.cols(); ++j) {
        double sum = 0;
        for (std::int64_t p = 0; p < a.of.cols(); ++p)
          sum += load(a, a.of.at(t, i, p)) * load(b, b.of.at(t, p, j));
        for (std::size_t step = 0; step < chain.size(); ++step)
          sum = others[step] ? binary(chain[step], sum, other_of(*others[step], t, i, j))
                             : eltwise(chain[step], sum);
        store(d, d.of.at(t, i, j), sum);
      }
  return kSuccess;
}

Status copy(const Memory& from, const Memory& to) {
  for (std::int64_t t = 0; t < to.of.batch(); ++t)
    for (std::int64_t i = 0; i < to.of.rows(); ++i)
      for (std::int64_t j = 0; j < to.of.cols(); ++j)
        store(to, to.of.at(t, i, j), load(from, from.of.at(t, i, j)));
  return kSuccess;
}

/// The BLAS-like calls: row-major matrices.
template <typename A, typename B, typename D>
Status gemm(char ta, char tb, std::int64_t m, std::int64_t n, std::int64_t k, float alpha,
            const A* a, std::int64_t lda, const B* b, std::int64_t ldb, float beta, D* d,
            std::int64_t ldd) {
  threads_at_execute = threads;
  if ((ta != 'N' && ta != 'T') || (tb != 'N' && tb != 'T')) return complain("a transpose");
  if (alpha != 1 || beta != 0) return complain("alpha or beta");
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (std::int64_t p = 0; p < k; ++p)
        sum += double(a[ta == 'T' ? p * lda + i : i * lda + p]) *
               double(b[tb == 'T' ? j * ldb + p : p * ldb + j]);
      d[i * ldd + j] = static_cast<D>(sum);
    }
  return kSuccess;
}

}  // namespace

extern "C" {

void omp_set_num_threads(int count) { threads = count; }

const Version* dnnl_version() {
  static Version version;
  version = {3, 99, 1, "fake", 2, 0};
  if (const char* other = std::getenv("FAKE_ONEDNN_VERSION"))
    if (std::sscanf(other, "%d.%d.%d", &version.major, &version.minor, &version.patch) != 3)
      std::abort();
  if (const char* runtime = std::getenv("FAKE_ONEDNN_RUNTIME"))
    version.cpu_runtime = unsigned(std::atoi(runtime));
  return &version;
}
int dnnl_get_effective_cpu_isa() { return 0xe7; }
int dnnl_engine_create(Engine** made, int kind, std::size_t index) {
  *made = &engine;
  return kind == 1 && index == 0 ? kSuccess : complain("an engine that is not a CPU");
}
int dnnl_stream_create(Stream** made, Engine* of, unsigned flags) {
  *made = &stream;
  return of == &engine && flags == 1 ? kSuccess : complain("a stream's flags");
}
int dnnl_stream_wait(Stream* of) { return of == &stream ? kSuccess : complain("a stream"); }

int dnnl_sgemm(char ta, char tb, std::int64_t m, std::int64_t n, std::int64_t k, float alpha,
               const float* a, std::int64_t lda, const float* b, std::int64_t ldb, float beta,
               float* d, std::int64_t ldd) {
  return gemm(ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, d, ldd);
}
int dnnl_gemm_u8s8s32(char ta, char tb, char offset, std::int64_t m, std::int64_t n, std::int64_t k,
                      float alpha, const std::uint8_t* a, std::int64_t lda, std::uint8_t ao,
                      const std::int8_t* b, std::int64_t ldb, std::int8_t bo, float beta,
                      std::int32_t* d, std::int64_t ldd, const std::int32_t* co) {
  if (offset != 'F' || ao || bo || !co || *co) return complain("offsets");
  return gemm(ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, d, ldd);
}
int dnnl_gemm_s8s8s32(char ta, char tb, char offset, std::int64_t m, std::int64_t n, std::int64_t k,
                      float alpha, const std::int8_t* a, std::int64_t lda, std::int8_t ao,
                      const std::int8_t* b, std::int64_t ldb, std::int8_t bo, float beta,
                      std::int32_t* d, std::int64_t ldd, const std::int32_t* co) {
  if (offset != 'F' || ao || bo || !co || *co) return complain("offsets");
  return gemm(ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, d, ldd);
}

int dnnl_memory_desc_create_with_strides(Descriptor** made, int dims, const std::int64_t* sizes,
                                         int type, const std::int64_t* strides) {
  if (const Status status = describe(made, dims, sizes, type); status != kSuccess) return status;
  std::memcpy((*made)->strides, strides, sizeof(std::int64_t) * std::size_t(dims));
  return kSuccess;
}
int dnnl_memory_desc_create_with_tag(Descriptor** made, int dims, const std::int64_t* sizes,
                                     int type, int tag) {
  if (tag != 1) return complain("a format tag other than any");
  if (const Status status = describe(made, dims, sizes, type); status != kSuccess) return status;
  (*made)->any_layout = true;
  return kSuccess;
}
int dnnl_memory_desc_destroy(Descriptor* descriptor) {
  delete descriptor;
  return kSuccess;
}
std::size_t dnnl_memory_desc_get_size(const Descriptor* d) {
  return d->elements() * bytes_of(d->type);
}

int dnnl_memory_create(Memory** made, const Descriptor* of, Engine* on, void* data) {
  if (on != &engine || of->any_layout) return complain("memory without a layout");
  *made = new Memory;
  (*made)->of = *of;
  (*made)->data = static_cast<std::byte*>(data);
  return kSuccess;
}
int dnnl_memory_set_data_handle(Memory* memory, void* data) {
  memory->data = static_cast<std::byte*>(data);
  return kSuccess;
}
int dnnl_memory_destroy(Memory* memory) {
  delete memory;
  return kSuccess;
}

#ifndef FAKE_ONEDNN_LACKS_MATMUL
int dnnl_matmul_primitive_desc_create(PrimitiveDescriptor** made, Engine* on, const Descriptor* a,
                                      const Descriptor* b, const Descriptor* bias,
                                      const Descriptor* d, const Attributes* attributes) {
  if (on != &engine || bias) return complain("a matmul with more than its operands");
  if (a->dims != b->dims || a->dims != d->dims || a->cols() != b->rows() ||
      a->rows() != d->rows() || b->cols() != d->cols() || a->batch() != d->batch() ||
      a->any_layout || d->any_layout)
    return complain("a matmul of matrices that do not fit");
  // As the real one: what A's and B's types go with.
  const bool floats =
      a->type <= kFp32 && b->type == a->type && (d->type == a->type || d->type == kFp32);
  const bool bytes = a->type >= kS8 && b->type == kS8 && d->type == kS32;
  if (!floats && !bytes) return kUnimplemented;
  *made = new PrimitiveDescriptor;
  (*made)->a = *a, (*made)->b = *b, (*made)->d = *d;
  if (b->any_layout) (*made)->b.choose_layout();
  if (attributes) (*made)->chain = attributes->chain;
  return kSuccess;
}
#endif
int dnnl_reorder_primitive_desc_create(PrimitiveDescriptor** made, const Descriptor* from,
                                       Engine* on, const Descriptor* to, Engine* there,
                                       const void* attributes) {
  if (on != &engine || there != &engine || attributes || from->any_layout || to->any_layout)
    return complain("a reorder");
  *made = new PrimitiveDescriptor;
  (*made)->reorder = true;
  (*made)->a = *from, (*made)->d = *to;
  return kSuccess;
}
int dnnl_primitive_desc_query(const PrimitiveDescriptor* of, int what, int index, void* result) {
  if (what != 8 || index != 0) return complain("a query");
  *static_cast<const char**>(result) = of->a.type == kFp16 ? "ref:any" : "fake:any";
  return kSuccess;
}
const Descriptor* dnnl_primitive_desc_query_md(const PrimitiveDescriptor* of, int what, int index) {
  if (what == 131 && index == 0) return &of->b;
  if (what == 255) {
    for (std::size_t step = 0; step < of->chain.size(); ++step)
      if (index == argument_of(step) && of->chain[step].algorithm >= kBinary)
        return &of->chain[step].other;
    return nullptr;
  }
  complain("a query of a descriptor");
  return nullptr;
}
int dnnl_primitive_desc_destroy(PrimitiveDescriptor* descriptor) {
  delete descriptor;
  return kSuccess;
}
int dnnl_primitive_create(Primitive** made, const PrimitiveDescriptor* of) {
  *made = new Primitive;
  (*made)->of = *of;
  return kSuccess;
}
int dnnl_primitive_execute(const Primitive* primitive, Stream* in, int count,
                           const Argument* arguments) {
  threads_at_execute = threads;
  if (in != &stream) return complain("a stream");
  const Memory *source = nullptr, *weights = nullptr, *destination = nullptr;
  const std::vector<PostOp>& chain = primitive->of.chain;
  std::vector<const Memory*> others(chain.size());
  for (int i = 0; i < count; ++i) {
    if (arguments[i].index > 33) {
      const std::size_t step = std::size_t(arguments[i].index) / 32768 - 1;
      if (step >= chain.size() || arguments[i].index != argument_of(step) ||
          chain[step].algorithm < kBinary || !arguments[i].memory->data)
        return complain("an operand of a post-op");
      others[step] = arguments[i].memory;
      continue;
    }
    const Memory*& slot = arguments[i].index == 1    ? source
                          : arguments[i].index == 33 ? weights
                                                     : destination;
    if (slot || (arguments[i].index != 17 && &slot == &destination))
      return complain("argument " + std::to_string(arguments[i].index));
    slot = arguments[i].memory;
    if (!slot || !slot->data) return complain("an argument without memory");
  }
  if (!source || !destination || !weights != primitive->of.reorder)
    return complain("arguments that are missing");
  for (std::size_t step = 0; step < chain.size(); ++step)
    if (!others[step] && chain[step].algorithm >= kBinary)
      return complain("a post-op without its operand");
  return primitive->of.reorder ? copy(*source, *destination)
                               : multiply(*source, *weights, *destination, chain, others);
}
int dnnl_primitive_destroy(Primitive* primitive) {
  delete primitive;
  return kSuccess;
}

int dnnl_post_ops_create(PostOps** made) {
  *made = new PostOps;
  return kSuccess;
}
int dnnl_post_ops_append_eltwise(PostOps* to, int algorithm, float alpha, float beta) {
  to->chain.push_back({algorithm, alpha, beta, {}});
  return kSuccess;
}
int dnnl_post_ops_append_binary(PostOps* to, int algorithm, const Descriptor* other) {
  if (algorithm < kBinary || algorithm > kBinary + 5) return complain("a binary post-op");
  to->chain.push_back({algorithm, 0, 0, *other});
  return kSuccess;
}
int dnnl_post_ops_destroy(PostOps* ops) {
  delete ops;
  return kSuccess;
}
int dnnl_primitive_attr_create(Attributes** made) {
  *made = new Attributes;
  return kSuccess;
}
int dnnl_primitive_attr_set_post_ops(Attributes* to, const PostOps* ops) {
  to->chain = ops->chain;
  return kSuccess;
}
int dnnl_primitive_attr_destroy(Attributes* attributes) {
  delete attributes;
  return kSuccess;
}

int fake_onednn_live() { return live; }
int fake_onednn_threads() { return threads_at_execute; }
const char* fake_onednn_complaint() { return complaint.c_str(); }

}  // extern "C"
