import TrafficModel

/// What a checkpoint leaves out: memories that only save time, and limits of the program. A restored ledger has new ones.
///
/// A type of its own, because a list of the fields to save would pass over each field that comes later.
package protocol NotSaved: Codable {
    init()
}

extension NotSaved {
    package init(from decoder: any Decoder) { self.init() }

    package func encode(to encoder: any Encoder) {}
}

/// What the user has configured of a ledger. A checkpoint leaves it out: a restored ledger has the configuration of the
/// daemon that restores it.
struct LedgerConfiguration: NotSaved {
    var retention = Ledger.Retention()
    var classes = AddressClasses()
}
