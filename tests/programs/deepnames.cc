// C++ functions whose names are long and deep: templates of templates, a lambda, an operator, an
// anonymous namespace. A quarter of argv[1] ms each. Link it with extra symbols for odder names.
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "burn.h"

template <typename... Types> struct List {
};

template <int Depth, typename T> struct Nest {
    using type = std::map<std::string, std::vector<typename Nest<Depth - 1, T>::type>>;
};

template <typename T> struct Nest<0, T> {
    using type = T;
};

template <typename T> OWN_FRAME void deep_template(long us, T *)
{
    burn_us(us);
}

namespace
{
OWN_FRAME void hidden_name(long us)
{
    burn_us(us);
}
} // namespace

namespace outer::inner
{
struct Number {
    long us;
    OWN_FRAME long operator<<(const std::function<long(long)> &function) const;
};

OWN_FRAME long Number::operator<<(const std::function<long(long)> &function) const
{
    burn_us(us);
    return function(us);
}
} // namespace outer::inner

int main(int argc, char **argv)
{
    long quarter_us = argument(argc, argv, 1, 1000) * 250;
    outer::inner::Number number{quarter_us};

    deep_template(quarter_us, static_cast<Nest<2, List<int, char>>::type *>(nullptr));
    hidden_name(quarter_us);
    return number << [](long us) {
        burn_us(us);
        return 0L;
    };
}
