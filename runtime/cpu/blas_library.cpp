#include "runtime/cpu/blas_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <cctype>
#include <cstdint>
#include <filesystem>
#include <string_view>
#include <utility>

#include "generator/problem/fields.h"
#include "runtime/env.h"
#include "runtime/gpu/shared_library.h"
#include "runtime/log.h"

namespace kiln {
namespace {

// Values fixed by the CBLAS standard.
constexpr int kRowMajor = 101, kNoTrans = 111, kTrans = 112;
/// What kiln's own hook exports beside the names of BLAS.
constexpr const char* kHookMark = "kiln_blas_hook";

/// The first "a.b.c" of a text as one number, thousands apart: 0.3.21 is 3021. 0: there is none.
int version_in(std::string_view text) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (!std::isdigit(static_cast<unsigned char>(text[i]))) continue;
    int parts[3] = {}, used = 0;
    while (i < text.size() && used < 3) {
      int value = 0;
      while (i < text.size() && std::isdigit(static_cast<unsigned char>(text[i])))
        value = std::min(value * 10 + (text[i++] - '0'), 9999);
      parts[used++] = value % 1000;
      if (i + 1 >= text.size() || text[i] != '.' ||
          !std::isdigit(static_cast<unsigned char>(text[i + 1])))
        break;
      ++i;
    }
    if (used >= 2) return parts[0] * 1'000'000 + parts[1] * 1000 + parts[2];
  }
  return 0;
}

/// "0.3.21" of "OpenBLAS 0.3.21 NO_LAPACKE …": the first digits with dots between them.
std::string dotted_in(std::string_view text) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::size_t end = std::min(text.find_first_not_of("0123456789.", i), text.size());
    const std::string_view part = text.substr(i, end - i);
    if (part.find('.') != part.npos && part.front() != '.')
      return std::string(part.substr(0, part.find_last_not_of('.') + 1));
    i = end;
  }
  return "of an unknown version";
}

/// FNV-1a, 31 bits: the same in every process.
int hash_of_text(std::string_view text) {
  std::uint32_t hash = 2166136261u;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619u;
  return static_cast<int>(hash & 0x7fffffff);
}

bool bind_openblas(Blas& blas, const gpu::SharedLibrary& library) {
  void (*set)(int) = nullptr;
  if (!library.load(set, "openblas_set_num_threads")) return false;
  blas.set_threads = set;
  blas.identity.library = BlasName::openblas;
  char* (*config)() = nullptr;
  char* (*core)() = nullptr;
  const std::string about = library.load(config, "openblas_get_config") ? config() : "OpenBLAS";
  blas.version = fmt::format("OpenBLAS {}", dotted_in(about));
  blas.note = fmt::format("{}, kernels for {}", about,
                          library.load(core, "openblas_get_corename") ? core() : "an unknown core");
  return true;
}

bool bind_blis(Blas& blas, const gpu::SharedLibrary& library) {
  void (*set)(std::int64_t) = nullptr;
  if (!library.load(set, "bli_thread_set_num_threads")) return false;
  blas.set_threads = [set](int threads) { set(threads); };
  blas.identity.library = BlasName::blis;
  // With BLIS_ARCH_TYPE set, asking for the kernels before bli_init() aborts the process.
  void (*initialise)() = nullptr;
  if (library.load(initialise, "bli_init")) initialise();
  const char* (*version)() = nullptr;
  int (*arch_id)() = nullptr;
  const char* (*arch_name)(int) = nullptr;
  const bool told =
      library.load(arch_id, "bli_arch_query_id") && library.load(arch_name, "bli_arch_string");
  const std::string about = library.load(version, "bli_info_get_version_str") ? version() : "?";
  const bool aocl = about.find("AOCL") != about.npos;  // AMD's, which says so itself
  blas.version = (aocl ? "AOCL-BLAS " : "BLIS ") + dotted_in(about);
  blas.note = fmt::format("{}{}, kernels for {}", aocl ? "" : "BLIS ", about,
                          told ? arch_name(arch_id()) : "an unknown core");
  return true;
}

bool bind_mkl(Blas& blas, const gpu::SharedLibrary& library) {
  void (*set)(int) = nullptr;
  if (!library.load(set, "MKL_Set_Num_Threads")) return false;
  blas.set_threads = set;
  blas.identity.library = BlasName::mkl;
  std::array<char, 200> version{};
  void (*tell)(char*, int) = nullptr;
  if (library.load(tell, "mkl_get_version_string"))
    tell(version.data(), static_cast<int>(version.size()) - 1);
  blas.note = std::string(version.data());
  blas.version = fmt::format("MKL {}", dotted_in(blas.note));
  return true;
}

}  // namespace

Result<std::shared_ptr<Blas>> Blas::open(const std::vector<std::string>& files) {
  const auto library = gpu::SharedLibrary::open(files);
  if (!library) return tl::unexpected(library.error());
  auto blas = std::make_shared<Blas>();
  blas->path = library->name();
  std::string missing;
  const auto take = [&](auto& function, const char* name) {
    if (!library->load(function, name))
      missing += (missing.empty() ? "" : ", ") + std::string(name);
  };
  take(blas->sgemm, "cblas_sgemm"), take(blas->dgemm, "cblas_dgemm");
  take(blas->sgemv, "cblas_sgemv"), take(blas->dgemv, "cblas_dgemv");
  if (!missing.empty())
    return fail(ErrorCode::device, fmt::format("{} lacks {}", blas->path, missing));
  if (int (*bits)() = nullptr;
      library->load(bits, "bli_info_get_blas_int_type_size") && bits() != 32)
    return fail(ErrorCode::device,
                fmt::format("{} takes integers of {} bits, kiln passes 32", blas->path, bits()));
  if (const char* mark = nullptr; library->load(mark, kHookMark))
    return fail(ErrorCode::device, fmt::format("{} is kiln's own hook", blas->path));
  blas->threads_can_be_set =
      bind_openblas(*blas, *library) || bind_blis(*blas, *library) || bind_mkl(*blas, *library);
  // The file behind the links, which alternatives change.
  Dl_info where{};
  std::string file = blas->path;
  if (dladdr(reinterpret_cast<void*>(blas->sgemm), &where) != 0 && where.dli_fname != nullptr) {
    std::error_code ignored;
    const auto real = std::filesystem::canonical(where.dli_fname, ignored);
    if (!ignored) file = real.string();
  }
  blas->identity.version = version_in(blas->note.empty() ? file : blas->note);
  blas->identity.build = hash_of_text(blas->note + "\n" + file);
  return blas;
}

void Blas::use_threads(int threads) {
  if (!threads_can_be_set || threads == threads_now) return;
  set_threads(threads);
  threads_now = threads;
}

std::vector<std::string> blas_files(const std::string& file,
                                    const std::vector<std::string>& folders) {
  std::vector<std::string> names;
  for (const std::string& folder : folders)
    names.push_back(fmt::format("/usr/lib/{}/{}/{}", KILN_LIBRARY_ARCHITECTURE, folder, file));
  names.push_back(file);
  return names;
}

const std::shared_ptr<Blas>& system_blas() {
  const log::Deferred messages;  // a callback that asks for the library would wait for this one
  static const auto& found = *new std::shared_ptr<Blas>([]() -> std::shared_ptr<Blas> {
    if (const char* named = env("KILN_BLAS"); named != nullptr && *named != '\0') {
      if (auto blas = Blas::open({named}))
        return *blas;
      else
        log::warn("KILN_BLAS = {}: {}", named, blas.error().message);
    }
    const std::vector<std::vector<std::string>> choices = {
        blas_files("libopenblas.so.0", {"openblas-pthread", "openblas-openmp", "openblas-serial"}),
        blas_files("libblis.so.4", {"blis-openmp", "blis-pthread", "blis-serial"}),
        {"libmkl_rt.so.2", "libmkl_rt.so"},
        // By its path alone: libblas.so.3 is whatever was made the alternative.
        {fmt::format("/usr/lib/{}/blas/libblas.so.3", KILN_LIBRARY_ARCHITECTURE)}};
    for (const auto& files : choices)
      if (auto blas = Blas::open(files)) return *blas;
    return nullptr;
  }());
  return found;
}

bool blas_computes(const Gemm& g) {
  constexpr std::int64_t kLimit = INT32_MAX;
  const DType t = g.a.dtype;
  return (t == fp32 || t == fp64) && g.b.dtype == t && g.d.dtype == t && g.accumulator == t &&
         is_plain_product(g) && g.m > 0 && g.n > 0 && g.k > 0 && g.m <= kLimit && g.n <= kLimit &&
         g.k <= kLimit && g.lda() <= kLimit && g.ldb() <= kLimit && g.ldd() <= kLimit;
}

BlasProduct::BlasProduct(std::shared_ptr<Blas> blas, Gemm gemm, int threads, bool gemv)
    : blas_(std::move(blas)),
      problem_([&] {
        gemm.b_packed = false;  // BLAS has no packed form; it reads B as it is
        return Problem::of(gemm).value();
      }()),
      threads_(threads),
      gemv_(gemv) {}

void BlasProduct::run(const Operands& operands) const {
  blas_->use_threads(threads_);
  if (problem_.gemm.a.dtype == fp64)
    run_as<double>(operands, blas_->dgemm, blas_->dgemv);
  else
    run_as<float>(operands, blas_->sgemm, blas_->sgemv);
}

template <typename T>
void BlasProduct::run_as(const Operands& operands, BlasGemmFn<T> gemm, BlasGemvFn<T> gemv) const {
  const Gemm& g = problem_.gemm;
  const int m = int(g.m), n = int(g.n), k = int(g.k);
  const int lda = int(g.lda()), ldb = int(g.ldb()), ldd = int(g.ldd());
  const bool a_k = problem_.a_k_major, b_k = problem_.b_k_major;
  auto* a = static_cast<const T*>(problem_.swapped ? operands.b : operands.a);
  auto* b = static_cast<const T*>(problem_.swapped ? operands.a : operands.b);
  auto* d = static_cast<T*>(operands.d);
  for (std::int64_t i = 0; i < g.batch; ++i) {
    // gemm would pack the whole matrix first.
    if (gemv_ && m == 1)
      gemv(kRowMajor, b_k ? kNoTrans : kTrans, b_k ? n : k, b_k ? k : n, T(1), b, ldb, a,
           a_k ? 1 : lda, T(0), d, 1);
    else if (gemv_ && n == 1)
      gemv(kRowMajor, a_k ? kNoTrans : kTrans, a_k ? m : k, a_k ? k : m, T(1), a, lda, b,
           b_k ? 1 : ldb, T(0), d, ldd);
    else
      gemm(kRowMajor, a_k ? kNoTrans : kTrans, b_k ? kTrans : kNoTrans, m, n, k, T(1), a, lda, b,
           ldb, T(0), d, ldd);
    a += g.stride_a();
    b += g.stride_b();
    d += g.stride_d();
  }
}

}  // namespace kiln
