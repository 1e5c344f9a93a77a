// patch_work: what C++ programs use of libstdc++: containers, strings, streams, exceptions, threads. Says the same in every run.
#include <algorithm>
#include <deque>
#include <fstream>
#include <future>
#include <iomanip>
#include <iostream>
#include <list>
#include <map>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

static int deep(int n)
{
	std::string local(static_cast<size_t>(n) + 20, 'x');

	if (n == 0)
		throw std::out_of_range(local);
	return deep(n - 1) + static_cast<int>(local.size());
}

int main(int argc, char **)
{
	std::map<std::string, int> words;
	std::unordered_map<int, std::string> names;
	std::list<std::string> list;
	std::ostringstream out;
	long caught = 0, total = 0;

	for (int i = 0; i < 3000; i++) {
		std::ostringstream s;
		s << std::hex << i * 2654435761u << ' ' << std::setprecision(5) << i / 7.0 << ' '
		  << std::boolalpha << (i % 3 == 0);
		words[s.str().substr(0, 4)]++;
		names[i] = s.str();
		list.push_back(s.str());
		std::istringstream in(s.str());
		unsigned int a;
		double b;
		bool c;
		in >> std::hex >> a >> b >> std::boolalpha >> c;
		total += static_cast<long>(a % 1000) + static_cast<long>(b) + c;
	}
	list.sort();
	for (auto &e : words)
		out << e.first << '=' << e.second << ';';
	for (int i = 0; i < 500; i++) {
		try {
			total += deep(i % 17);
		} catch (const std::out_of_range &e) {
			caught += static_cast<long>(std::string(e.what()).size());
		}
	}
	for (const char *text : { "12", "x", "99999999999999999999" }) {
		try {
			total += std::stoi(text);
		} catch (const std::logic_error &e) {
			out << e.what();
		}
	}
	if (argc < 2) {
		std::vector<std::future<long>> parts;
		for (int t = 0; t < 4; t++)
			parts.push_back(std::async(std::launch::async, [t] {
				auto p = std::make_shared<std::deque<long>>();
				for (long i = 0; i < 20000; i++)
					p->push_back(i * t);
				return p->back();
			}));
		for (auto &p : parts)
			total += p.get();
	}
	std::cout << std::hash<std::string>()(out.str()) << ' ' << list.front() << ' ' << names.size() << ' '
		  << caught << ' ' << total << std::endl;
	return 4;
}
