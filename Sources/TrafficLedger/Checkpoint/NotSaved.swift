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
struct LedgerConfiguration: Codable {
    var retention: Ledger.Retention
    var classes: AddressClasses

    init(retention: Ledger.Retention, classes: AddressClasses) {
        (self.retention, self.classes) = (retention, classes)
    }

    init(from decoder: any Decoder) throws {
        guard let decoder = decoder as? CheckpointDecoder else {
            let context = DecodingError.Context(codingPath: decoder.codingPath, debugDescription: "no checkpoint")
            throw DecodingError.valueNotFound(Self.self, context)
        }
        self = decoder.configuration
    }

    func encode(to encoder: any Encoder) {}
}
