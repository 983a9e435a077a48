import TrafficLimits
import TrafficModel
import TrafficReport

/// Records that the kernel's counts do not confirm yet. Each process and each user may have a limited number of them
/// waiting (``ReportLimits/waitingRecords``).
struct WaitingRecords: Codable {
    struct Entry: Codable {
        var record: Report.Record
        var sender: ProcessIdentity
        /// The number of ticks when the record came.
        var since: UInt64
    }

    /// An exchange of one process.
    private struct Exchange: Hashable, Codable {
        var process: ProcessIdentity
        var number: UInt64
    }

    private var entries: [Entry] = []
    /// The exchanges that have records here. Later records of these exchanges wait behind the earlier records.
    private var exchanges: Set<Exchange> = []
    private var budget = Budget<ProcessIdentity>()

    var isEmpty: Bool { self.entries.isEmpty }

    /// Takes out all records, in the order in which they came.
    mutating func takeAll() -> [Entry] {
        defer { self = WaitingRecords() }
        return self.entries
    }

    func hasRoom(for sender: ReportSender) -> Bool {
        self.budget.hasRoom(of: sender.identity, sender.user, within: ReportLimits.waitingRecords)
    }

    /// Whether an earlier record of the same exchange waits.
    func has(_ number: UInt64, of sender: ReportSender) -> Bool {
        guard !self.exchanges.isEmpty else { return false }
        return self.exchanges.contains(Exchange(process: sender.identity, number: number))
    }

    /// - Parameter sender: A sender that has room.
    mutating func append(_ record: Report.Record, of sender: ReportSender, since: UInt64) {
        self.entries.append(Entry(record: record, sender: sender.identity, since: since))
        self.budget.add(of: sender.identity, sender.user)
        if let number = record.exchange {
            self.exchanges.insert(Exchange(process: sender.identity, number: number))
        }
    }
}

extension Report.Record {
    fileprivate var exchange: UInt64? {
        if case .exchange(let exchange) = self { exchange.number } else { nil }
    }
}
