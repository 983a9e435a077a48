import TrafficDocuments
import TrafficModel

/// The rates of a month's intervals, for bills.
///
/// A sum with more counted time than its interval has (the machine slept, no daemon read the counters, the disk was full)
/// stands for as many intervals with the same rate: when its bytes moved within this time, nobody knows.
struct IntervalRates {
    private struct Sample {
        var bytes: ByteCounts
        /// At least 1.
        var intervals: UInt64

        var seconds: UInt64 { self.intervals *| UInt64(MonthReport.Intervals.length) }
    }

    private var samples: [Sample] = []
    /// How many intervals the samples are.
    private(set) var count: UInt64 = 0

    /// - Parameters:
    ///   - countedSeconds: Of which the bytes are.
    ///   - most: How many intervals there were since the last sum, or since the beginning of the month, with this one.
    mutating func add(_ bytes: ByteCounts, countedSeconds: UInt64, most: UInt64) {
        let length = UInt64(MonthReport.Intervals.length)
        let intervals = max(1, min(most, (countedSeconds +| length / 2) / length))
        self.samples.append(Sample(bytes: bytes, intervals: intervals))
        self.count +|= intervals
    }

    /// - Parameter hasWire: Packets were counted in this month. Intervals without them had none.
    func percentile95(hasWire: Bool) -> MonthReport.BitRates? {
        guard self.count > 0 else { return nil }
        return MonthReport.BitRates(
            payloadSent: self.percentile95 { $0.payload.sent },
            payloadReceived: self.percentile95 { $0.payload.received },
            wireSent: hasWire ? self.percentile95 { $0.wireSent ?? 0 } : nil,
            wireReceived: hasWire ? self.percentile95 { $0.wireReceived ?? 0 } : nil
        )
    }

    private func percentile95(_ bytes: (ByteCounts) -> UInt64) -> UInt64 {
        let rates = self.samples.map { (rate: bytes($0.bytes) *| 8 / $0.seconds, intervals: $0.intervals) }
            .sorted { $0.rate < $1.rate }
        // A twentieth of the intervals lies above, rounded down.
        var rank = self.count - self.count / 20
        for (rate, intervals) in rates {
            if rank <= intervals { return rate }
            rank -= intervals
        }
        return 0
    }

    func exceeding(_ bitsPerSecond: UInt64, hasWire: Bool) -> MonthReport.Excess {
        func count(_ bytes: (ByteCounts) -> UInt64) -> UInt64 {
            self.samples.reduce(0) { sum, sample in
                bytes(sample.bytes) *| 8 > bitsPerSecond *| sample.seconds ? sum + sample.intervals : sum
            }
        }
        return MonthReport.Excess(
            bitsPerSecond: bitsPerSecond,
            payloadSent: count { $0.payload.sent },
            payloadReceived: count { $0.payload.received },
            wireSent: hasWire ? count { $0.wireSent ?? 0 } : nil,
            wireReceived: hasWire ? count { $0.wireReceived ?? 0 } : nil
        )
    }
}
