/// Whether numbers grow from each time to the next: the test of Mann ("Nonparametric tests against trend", Econometrica 13,
/// 1945) and Kendall, which asks for no distribution, with the correction for equal numbers.
struct Trend {
    private let values: [UInt64]
    /// The standard score; more than 0 for growth.
    let score: Double

    init(_ values: [UInt64]) {
        self.values = values
        var sum = 0
        for later in values.indices {
            for earlier in 0..<later {
                sum += (values[later] > values[earlier] ? 1 : 0) - (values[later] < values[earlier] ? 1 : 0)
            }
        }
        func weight(_ count: Int) -> Int { count * (count - 1) * (2 * count + 5) }
        let ties = Dictionary(grouping: values) { $0 }.values.reduce(0) { $0 + weight($1.count) }
        let variance = Double(weight(values.count) - ties) / 18
        self.score = variance > 0 ? Double(sum - sum.signum()) / variance.squareRoot() : 0
    }

    /// There were requests all the time, they grow (by chance in one of 20,000 cases), and the last third has half as many
    /// again as the first, so that a morning's slow growth is none.
    var isSteadyGrowth: Bool {
        self.goesOn && self.score > 3.89
            && 2 * self.sum(self.values.suffix(self.third)) >= 3 * self.sum(self.values.prefix(self.third))
    }

    /// By chance in one of 20 cases.
    var mayGrow: Bool { self.goesOn && self.score > 1.645 }

    /// What begins or ends is no growth.
    private var goesOn: Bool { !self.values.contains(0) }

    private var third: Int { self.values.count / 3 }

    private func sum(_ values: ArraySlice<UInt64>) -> Double { values.reduce(0) { $0 + Double($1) } }
}
