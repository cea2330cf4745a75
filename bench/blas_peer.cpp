// Libraries that export the CBLAS interface: OpenBLAS, BLIS and AOCL-BLAS as the system has them,
// and others (newer ones, MKL) by their files.
#include <fmt/format.h>

#include <cstdlib>
#include <optional>
#include <string_view>

#include "bench/peer.h"
#include "runtime/cpu/blas_library.h"
#include "runtime/env.h"

namespace kiln {
namespace {

class BlasKernel final : public PeerKernel {
 public:
  explicit BlasKernel(BlasProduct product) : product_(std::move(product)) {}
  void run(const Operands& operands) override { product_.run(operands); }

 private:
  BlasProduct product_;
};

class BlasPeer final : public Peer {
 public:
  BlasPeer(std::shared_ptr<Blas> blas, std::string name)
      : blas_(std::move(blas)),
        name_(std::move(name)),
        note_(fmt::format("{}, gemv where m or n is 1, {}", blas_->note, blas_->path)) {}
  std::string name() const override { return name_; }
  std::string version() const override { return blas_->version; }
  std::string note() const override { return note_; }

  bool supports(const Gemm& gemm, int /*threads*/) const override { return blas_computes(gemm); }

  Result<std::unique_ptr<PeerKernel>> prepare(const Gemm& gemm, int threads) override {
    return std::make_unique<BlasKernel>(BlasProduct(blas_, gemm, threads, true));
  }

 private:
  std::shared_ptr<Blas> blas_;
  std::string name_, note_;
};

/// What AOCL-BLAS says of itself before anything of it is initialised.
bool is_aocl(const std::vector<std::string>& files) {
  const Library library = Library::open(files);
  if (!library) return false;
  const auto version = library.symbol<const char* (*)()>("bli_info_get_version_str");
  return version && std::string_view(version()).find("AOCL") != std::string_view::npos;
}

/// A variable is unset until the end of a scope.
class Unset {
 public:
  explicit Unset(const char* name) : name_(name) {
    if (const char* value = env(name)) value_ = value;
    unsetenv(name);
  }
  ~Unset() {
    if (value_) setenv(name_, value_->c_str(), 1);
  }
  Unset(const Unset&) = delete;
  Unset& operator=(const Unset&) = delete;

 private:
  const char* name_;
  std::optional<std::string> value_;
};

}  // namespace

Status add_blas(PeerSet& set, const std::string& name, const std::vector<std::string>& files) {
  // The value that makes BLIS 0.9 choose its AVX-512 kernels ends the process in AOCL-BLAS, which
  // reads it as it is initialised and knows newer CPUs by itself.
  std::optional<Unset> unset;
  if (is_aocl(files)) unset.emplace("BLIS_ARCH_TYPE");
  auto blas = Blas::open(files);
  if (!blas) return tl::unexpected(blas.error());
  if (!(*blas)->threads_can_be_set)
    return fail(ErrorCode::device,
                fmt::format("{} is none of OpenBLAS, BLIS and MKL: its number of threads cannot "
                            "be set",
                            (*blas)->path));
  set.present.push_back(std::make_unique<BlasPeer>(std::move(*blas), name));
  return {};
}

namespace {
void add_installed_blas(PeerSet& set, const std::string& name,
                        const std::vector<std::string>& files) {
  if (Status added = add_blas(set, name, files); !added)
    set.absent.push_back({name, added.error().message});
}
}  // namespace

void load_openblas(PeerSet& set) {
  // The pthread flavour first: its pool is its own, so no other peer's OpenMP team disturbs it.
  add_installed_blas(set, "openblas",
                     blas_files("libopenblas.so.0", {"openblas-pthread", "openblas-openmp"}));
}

void load_blis(PeerSet& set) {
  // The OpenMP flavour first: the pthread one creates its threads again in every call.
  add_installed_blas(set, "blis", blas_files("libblis.so.4", {"blis-openmp", "blis-pthread"}));
}

void load_aocl(PeerSet& set) { add_installed_blas(set, "aocl", {"libblis-mt.so.5"}); }

}  // namespace kiln
