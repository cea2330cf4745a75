//% if group_along == hilbert
// Tiles in the order of a curve whose steps lead to neighbours, so that those that run at the same
// time, and those that run next, share rows of both operands in L2. Bands of kGroup tiles along the
// left side are divided into squares; every other band runs backwards. Inside a whole square runs
// a Hilbert curve; what is left at the edges goes line by line. Expects types.h.
#pragma once

struct Place {
  int left, right;
};

/// Place `at` of the curve through `side` x `side` tiles, a power of two: from (0, 0) to
/// (0, side - 1), where the next square begins.
KILN_DEVICE Place in_square(unsigned at, int side) {
  Place place = {0, 0};
  for (int half = 1; half < side; half *= 2) {
    const int far_right = at / 2 % 2, far_left = (at ^ unsigned(far_right)) % 2;
    // The near quarters hold the smaller curve mirrored at one diagonal or the other.
    if (far_left == 0) {
      const Place smaller = place;
      place.left = far_right == 0 ? smaller.right : half - 1 - smaller.right;
      place.right = far_right == 0 ? smaller.left : half - 1 - smaller.left;
    }
    place.left += far_left * half;
    place.right += far_right * half;
    at /= 4;
  }
  return place;
}

/// Place `at` of `lefts` x `rights` tiles, each once.
KILN_DEVICE Place on_curve(int at, int lefts, int rights, int side) {
  const int band = at / (side * rights), rest = lefts - band * side;
  const int height = rest < side ? rest : side;
  int in_band = at - band * side * rights;
  if (band % 2 == 1) in_band = height * rights - 1 - in_band;
  const int square = in_band / (side * height), in = in_band - square * side * height;
  const bool whole = height == side && (square + 1) * side <= rights;
  Place place = {in % height, in / height};
  if (whole) place = in_square(unsigned(in), side);
  place.left += band * side;
  place.right += square * side;
  return place;
}
//% end
