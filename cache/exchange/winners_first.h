// The order of rows in a file that is exported. A look-up of a problem that nobody tuned reads all
// winners of its class and their configs: a few of some ten thousand rows, on a page each where
// they lie among the others.
#pragma once

#include <SQLiteCpp/Database.h>

namespace kiln {

/// Numbers measurements and configs anew: winners and what they name first, else in the order there
/// was. The next VACUUM puts them so. Throws SQLite::Exception.
void put_winners_first(SQLite::Database& db);

}  // namespace kiln
