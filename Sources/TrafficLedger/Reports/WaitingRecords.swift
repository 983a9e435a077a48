import TrafficModel
import TrafficReport

/// Records that the kernel's counts do not bear out yet, within what each process and each user may have waiting
/// (``ReportLimits/waitingRecords``).
struct WaitingRecords {
    struct Entry {
        var record: Report.Record
        var sender: ProcessIdentity
        /// The number of ticks when it came.
        var since: UInt64
    }

    /// One process's exchange.
    private struct Exchange: Hashable {
        var process: ProcessIdentity
        var number: UInt64
    }

    private var entries: [Entry] = []
    /// Those that have records here: what comes later of them waits behind these.
    private var exchanges: Set<Exchange> = []
    private var budget = Budget<ProcessIdentity>(ReportLimits.waitingRecords)

    var isEmpty: Bool { self.entries.isEmpty }

    /// All that wait, in the order in which they came. None waits after this.
    mutating func takeAll() -> [Entry] {
        defer { self = WaitingRecords() }
        return self.entries
    }

    func hasRoom(for sender: ReportSender) -> Bool { self.budget.hasRoom(of: sender.identity, sender.user) }

    /// Whether an earlier record of the same exchange waits.
    func has(exchangeOf record: Report.Record, _ sender: ReportSender) -> Bool {
        guard !self.exchanges.isEmpty, let number = record.exchange else { return false }
        return self.exchanges.contains(Exchange(process: sender.identity, number: number))
    }

    /// - Parameter sender: Has room.
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
        switch self {
        case .request(let message), .response(let message): message.exchange
        case .outcome(let outcome): outcome.exchange
        case .connection: nil
        }
    }
}
