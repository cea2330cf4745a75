// Libraries that export the CBLAS interface: OpenBLAS and BLIS as the system has them, and others
// (newer ones, AOCL-BLAS, MKL) by their files.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <set>
#include <string_view>

#include "bench/library.h"
#include "bench/peer.h"
#include "generator/problem/canonical.h"
#include "generator/problem/fields.h"

namespace kiln {
namespace {

// Values fixed by the CBLAS standard.
constexpr int kRowMajor = 101, kNoTrans = 111, kTrans = 112;

template <typename T>
using GemmFn = void (*)(int, int, int, int, int, int, T, const T*, int, const T*, int, T, T*, int);
template <typename T>
using GemvFn = void (*)(int, int, int, int, T, const T*, int, const T*, int, T, T*, int);

struct Blas {
  Library library;
  std::string name, note;
  GemmFn<float> sgemm = nullptr;
  GemmFn<double> dgemm = nullptr;
  GemvFn<float> sgemv = nullptr;
  GemvFn<double> dgemv = nullptr;
  std::function<void(int)> set_threads;
  int threads_now = 0;  // the library's current setting, so that repeated calls do not set it again

  void use_threads(int threads) {
    if (threads == threads_now) return;
    set_threads(threads);
    threads_now = threads;
  }
  template <typename T>
  GemmFn<T> gemm() const {
    if constexpr (sizeof(T) == 4)
      return sgemm;
    else
      return dgemm;
  }
  template <typename T>
  GemvFn<T> gemv() const {
    if constexpr (sizeof(T) == 4)
      return sgemv;
    else
      return dgemv;
  }
};

template <typename T>
class BlasKernel final : public PeerKernel {
 public:
  BlasKernel(std::shared_ptr<Blas> blas, const Canonical& problem, int threads)
      : blas_(std::move(blas)), problem_(problem), threads_(threads) {}

  void run(const Operands& operands) override {
    blas_->use_threads(threads_);
    const Gemm& g = problem_.gemm;
    auto* a = static_cast<const T*>(problem_.swapped ? operands.b : operands.a);
    auto* b = static_cast<const T*>(problem_.swapped ? operands.a : operands.b);
    auto* d = static_cast<T*>(operands.d);
    for (std::int64_t i = 0; i < g.batch; ++i)
      one(a + i * g.stride_a(), b + i * g.stride_b(), d + i * g.stride_d());
  }

 private:
  // A product with a vector goes to gemv: both libraries' gemm would pack the whole matrix first.
  void one(const T* a, const T* b, T* d) const {
    const Gemm& g = problem_.gemm;
    const int m = int(g.m), n = int(g.n), k = int(g.k);
    const int lda = int(g.lda()), ldb = int(g.ldb()), ldd = int(g.ldd());
    const bool a_k = problem_.a_k_major, b_k = problem_.b_k_major;
    if (m == 1) {
      blas_->gemv<T>()(kRowMajor, b_k ? kNoTrans : kTrans, b_k ? n : k, b_k ? k : n, T(1), b, ldb,
                       a, a_k ? 1 : lda, T(0), d, 1);
    } else if (n == 1) {
      blas_->gemv<T>()(kRowMajor, a_k ? kNoTrans : kTrans, a_k ? m : k, a_k ? k : m, T(1), a, lda,
                       b, b_k ? 1 : ldb, T(0), d, ldd);
    } else {
      blas_->gemm<T>()(kRowMajor, a_k ? kNoTrans : kTrans, b_k ? kTrans : kNoTrans, m, n, k, T(1),
                       a, lda, b, ldb, T(0), d, ldd);
    }
  }

  std::shared_ptr<Blas> blas_;
  Canonical problem_;
  int threads_;
};

bool fits_int(const Gemm& g) {
  constexpr std::int64_t limit = INT32_MAX;
  return g.m <= limit && g.n <= limit && g.k <= limit && g.lda() <= limit && g.ldb() <= limit &&
         g.ldd() <= limit;
}

class BlasPeer final : public Peer {
 public:
  explicit BlasPeer(std::shared_ptr<Blas> blas) : blas_(std::move(blas)) {}
  std::string name() const override { return blas_->name; }
  std::string note() const override { return blas_->note; }

  bool supports(const Gemm& g, int /*threads*/) const override {
    const DType t = g.a.dtype;
    return (t == fp32 || t == fp64) && g.b.dtype == t && g.d.dtype == t && g.accumulator == t &&
           is_plain_product(g) && g.m > 0 && g.n > 0 && g.k > 0 && fits_int(g);
  }

  Result<std::unique_ptr<PeerKernel>> prepare(const Gemm& gemm, int threads) override {
    Gemm plain = gemm;
    plain.b_packed = false;  // neither has a public packed form; they read B as it is
    const Canonical problem = canonicalise(plain);
    if (gemm.a.dtype == fp64) return std::make_unique<BlasKernel<double>>(blas_, problem, threads);
    return std::make_unique<BlasKernel<float>>(blas_, problem, threads);
  }

 private:
  std::shared_ptr<Blas> blas_;
};

/// Fills in the CBLAS entry points; false when one is missing.
bool bind(Blas& blas) {
  blas.sgemm = blas.library.symbol<GemmFn<float>>("cblas_sgemm");
  blas.dgemm = blas.library.symbol<GemmFn<double>>("cblas_dgemm");
  blas.sgemv = blas.library.symbol<GemvFn<float>>("cblas_sgemv");
  blas.dgemv = blas.library.symbol<GemvFn<double>>("cblas_dgemv");
  return blas.sgemm && blas.dgemm && blas.sgemv && blas.dgemv;
}

std::vector<std::string> in_folders(std::string_view file, std::vector<std::string_view> folders) {
  std::vector<std::string> names;
  for (auto folder : folders)
    names.push_back(fmt::format("/usr/lib/{}/{}/{}", KILN_LIBRARY_ARCHITECTURE, folder, file));
  names.emplace_back(file);
  return names;
}

/// Finds out which library it is, by how it is told its number of threads; false: none that is
/// known.
bool recognise(Blas& blas) {
  const Library& library = blas.library;
  if (auto set = library.symbol<void (*)(int)>("openblas_set_num_threads")) {
    blas.set_threads = set;
    auto config = library.symbol<char* (*)()>("openblas_get_config");
    auto core = library.symbol<char* (*)()>("openblas_get_corename");
    blas.note = fmt::format("{}, kernels for {}", config ? config() : "OpenBLAS",
                            core ? core() : "an unknown core");
    return true;
  }
  if (auto set = library.symbol<void (*)(std::int64_t)>("bli_thread_set_num_threads")) {
    blas.set_threads = [set](int threads) { set(threads); };
    // With BLIS_ARCH_TYPE set, asking for the kernels before bli_init() aborts the process.
    if (auto initialise = library.symbol<void (*)()>("bli_init")) initialise();
    auto version = library.symbol<const char* (*)()>("bli_info_get_version_str");
    auto arch_id = library.symbol<int (*)()>("bli_arch_query_id");
    auto arch_name = library.symbol<const char* (*)(int)>("bli_arch_string");
    blas.note = fmt::format("BLIS {}, kernels for {}", version ? version() : "?",
                            arch_id && arch_name ? arch_name(arch_id()) : "an unknown core");
    return true;
  }
  if (auto set = library.symbol<void (*)(int)>("MKL_Set_Num_Threads")) {
    blas.set_threads = set;
    std::array<char, 200> version{};
    if (auto tell = library.symbol<void (*)(char*, int)>("mkl_get_version_string"))
      tell(version.data(), int(version.size()) - 1);
    blas.note = std::string(version.data());
    return true;
  }
  return false;
}

/// The first of the files that loads, as a peer of this name.
void add_blas(PeerSet& set, const std::string& name, const std::vector<std::string>& files) {
  auto blas = std::make_shared<Blas>();
  blas->library = Library::open(files);
  const auto absent = [&](std::string reason) { set.absent.push_back({name, std::move(reason)}); };
  if (!blas->library) return absent(blas->library.error());
  const std::string& path = blas->library.path();
  if (!bind(*blas)) return absent(fmt::format("{} lacks a CBLAS symbol", path));
  if (!recognise(*blas))
    return absent(
        fmt::format("{} is none of OpenBLAS, BLIS and MKL: its number of threads cannot "
                    "be set",
                    path));
  blas->name = name;
  blas->note += fmt::format(", gemv where m or n is 1, {}", path);
  set.present.push_back(std::make_unique<BlasPeer>(std::move(blas)));
}

/// "libblis-mt.so.5" → "blis-mt".
std::string name_of(const std::filesystem::path& file) {
  std::string name = file.filename().string();
  if (name.starts_with("lib")) name.erase(0, 3);
  return name.substr(0, name.find(".so"));
}

}  // namespace

void load_openblas(PeerSet& set) {
  // The pthread flavour first: its pool is its own, so no other peer's OpenMP team disturbs it.
  add_blas(set, "openblas",
           in_folders("libopenblas.so.0", {"openblas-pthread", "openblas-openmp"}));
}

void load_blis(PeerSet& set) {
  // The OpenMP flavour first: the pthread one creates its threads again in every call.
  add_blas(set, "blis", in_folders("libblis.so.4", {"blis-openmp", "blis-pthread"}));
}

void load_given_blas(PeerSet& set) {
  const char* given = std::getenv("KILN_PEERS");
  std::set<std::string> names;
  for (const auto& peer : set.present) names.insert(peer->name());
  for (std::string_view rest = given ? given : ""; !rest.empty();) {
    const std::string file(rest.substr(0, rest.find(':')));
    rest.remove_prefix(std::min(rest.size(), file.size() + 1));
    if (file.empty()) continue;
    std::string name = name_of(file);
    while (!names.insert(name).second) name += "+";  // beside the system's own
    add_blas(set, name, {file});
  }
}

}  // namespace kiln
