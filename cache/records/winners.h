// Winners: the row of a key that a call runs, and its code. Knows no database file by itself.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cache/record.h"
#include "kiln/error.hpp"

namespace kiln {

class Layers;

class Winners {
 public:
  explicit Winners(Layers& layers) : layers_(layers) {}

  /// The winner of exactly this key with its code and source. Validators as in Validators; a winner
  /// whose stored launch is not today's counts as a miss.
  std::optional<Record> best(const BestKey& key, const Validators& now);
  /// Winners of the same device, policy and problem class (see class_text), and kernels of ranges
  /// of it, without code, of any templates: they are proposals, proved before they run. Those whose
  /// file is not trusted name no code; seals are looked at by Proofs::envelope_proven().
  std::vector<Record> tuned_like(const BestKey& key, const Validators& now);
  /// The same with less of each. A row that record_of() cannot read may be among them.
  std::vector<KernelRow> kernels_like(const BestKey& key, const Validators& now);
  /// The record of one of these, without code. Nothing: it cannot be read.
  std::optional<Record> record_of(const BestKey& key, const KernelRow& row);

  /// Winners of every layer, without code; the user's own first.
  Result<std::vector<Record>> list();
  /// The same with the kernels of ranges, whose policies name their range.
  Result<std::vector<Record>> list_kernels();

  /// Makes an already stored config the winner of its key.
  Status make_winner(const BestKey& key, const Validators& made_by, const Config& config);
  /// Gives a winner of the user's own file the same machine code under another key, made by today's
  /// templates and the compiler that `code` names.
  Status rename_code(const Record& record, const std::string& template_hash,
                     const StoredBinary& code);
  /// The row of the user's own file is a winner no more: evidence, as those of losers. Its code
  /// goes where no winner names it.
  Status retire(const Record& record);
  /// Stores today's launch with a winner of the user's own file that was verified under it. Nothing
  /// for a record of a shipped file.
  Status stamp(const Record& record);

 private:
  Layers& layers_;
};

}  // namespace kiln
