// After a change of templates or generator: which stored winners are still what today's kiln makes,
// which only need their code's name brought up to date, and which must be raced again.
#pragma once

#include <string>
#include <vector>

#include "cache/record.h"
#include "cache/store.h"

namespace kiln {

/// What became of one winner. `same`: its config renders to the stored tokens. `recompiled`: to
/// other tokens, of which the compiler makes the very same machine code. `race`: to be raced again,
/// on its device. `unknown`: other tokens, and no compiler for its device here. `replaced`: neither
/// need be done, for the same problem has a winner of today's templates.
enum class Refreshed : std::uint8_t { same, recompiled, race, unknown, replaced };
std::string_view name(Refreshed state);

struct RefreshRow {
  BestKey key;
  std::string config;
  Refreshed state = Refreshed::same;
  std::string reason;  // of `race` and `unknown`: one sentence
};

/// Looks at every winner of the store; with `write`, those of the user's own file that are
/// `recompiled` are stored anew under today's tokens and templates, and those that are `replaced`
/// are winners no more. Compiles on all cores; runs no kernel and needs no device. Errors:
/// database.
Result<std::vector<RefreshRow>> refresh(Store& store, bool write);

}  // namespace kiln
