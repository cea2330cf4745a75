#include "generator/expression/definitions.h"

#include <algorithm>

namespace kiln::expression {
namespace {

constexpr Definition kDefinitions[] = {
    {"square", {"x"}, "d=x*x"},
    {"sign", {"x"}, "d=where(x>0,1,where(x<0,-1,x))"},
    // e^x - 1 = 2 tanh(x/2) / (1 - tanh(x/2)), which does not cancel near 0.
    {"expm1", {"x"}, "t=tanh(x/2);d=where(abs(x)<1,2*t/(1-t),exp(x)-1)"},
    // log(1 + x) = 2 atanh(x / (2 + x)), of which the series' rest is below 1e-15.
    {"log1p",
     {"x"},
     "s=x/(2+x);z=s*s;"
     "r=1+z*(0.3333333333333333+z*(0.2+z*(0.14285714285714285+z*(0.1111111111111111+"
     "z*0.09090909090909091))));"
     "d=where(abs(x)<0.125,2*s*r,log(1+x))"},
    {"softplus", {"x"}, "d=max(x,0)+log1p(exp(-abs(x)))"},
    {"logsigmoid", {"x"}, "d=min(x,0)-log1p(exp(-abs(x)))"},
    // tanh(log(1 + e^x)) as a quotient of e^-|x|, in which nothing cancels or overflows.
    {"mish", {"x"}, "q=exp(-abs(x));p=q*(2+q);d=x*where(x>0,(1+2*q)/(1+2*q*(1+q)),p/(2+p))"},
    {"quick_gelu", {"x"}, "d=x*sigmoid(1.702*x)"},
    {"hardsigmoid", {"x"}, "d=clamp(x/6+0.5,0,1)"},
    {"hardswish", {"x"}, "d=x*clamp(x/6+0.5,0,1)"},
    {"relu6", {"x"}, "d=clamp(x,0,6)"},
    {"leaky_relu", {"x", "a"}, "d=where(x>0,x,x*a)"},
    {"elu", {"x", "a"}, "t=tanh(min(x,0)/2);d=where(x>0,x,a*(2*t/(1-t)))"},
    {"selu", {"x"}, "d=1.0507009873554805*elu(x,1.6732632423543772)"},
    {"softsign", {"x"}, "d=x/(1+abs(x))"},
    {"softcap", {"x", "c"}, "d=c*tanh(x/c)"},
};

}  // namespace

std::span<const Definition> definitions() { return kDefinitions; }

const Definition* definition_named(std::string_view name) {
  const auto* const found = std::ranges::find(kDefinitions, name, &Definition::name);
  return found == std::end(kDefinitions) ? nullptr : found;
}

}  // namespace kiln::expression
