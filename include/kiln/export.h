/* Marks what a shared libkiln exports; everything else is built hidden. C and C++. */
#pragma once

#define KILN_API __attribute__((visibility("default")))
