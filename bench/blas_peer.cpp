// Libraries that export the CBLAS interface: OpenBLAS and BLIS as the system has them, and others
// (newer ones, AOCL-BLAS, MKL) by their files.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <string_view>

#include "bench/peer.h"
#include "runtime/cpu/blas_library.h"

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
  std::string note() const override { return note_; }

  bool supports(const Gemm& gemm, int /*threads*/) const override { return blas_computes(gemm); }

  Result<std::unique_ptr<PeerKernel>> prepare(const Gemm& gemm, int threads) override {
    return std::make_unique<BlasKernel>(BlasProduct(blas_, gemm, threads, true));
  }

 private:
  std::shared_ptr<Blas> blas_;
  std::string name_, note_;
};

/// The first of the files that loads, as a peer of this name.
void add_blas(PeerSet& set, const std::string& name, const std::vector<std::string>& files) {
  auto blas = Blas::open(files);
  if (blas && !(*blas)->threads_can_be_set)
    blas = fail(ErrorCode::device,
                fmt::format("{} is none of OpenBLAS, BLIS and MKL: its number of threads cannot "
                            "be set",
                            (*blas)->path));
  if (blas)
    set.present.push_back(std::make_unique<BlasPeer>(std::move(*blas), name));
  else
    set.absent.push_back({name, blas.error().message});
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
           blas_files("libopenblas.so.0", {"openblas-pthread", "openblas-openmp"}));
}

void load_blis(PeerSet& set) {
  // The OpenMP flavour first: the pthread one creates its threads again in every call.
  add_blas(set, "blis", blas_files("libblis.so.4", {"blis-openmp", "blis-pthread"}));
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
