/// Names for parts of the address space, so that the traffic that costs money is one number:
/// `--class paid=0.0.0.0/0,::/0 --class partner=192.0.2.0/24`.
///
/// If several blocks contain an address, the block with the longest prefix decides, in whichever class it is. An
/// address in no block has no class.
public struct AddressClasses: Sendable, Hashable {
    /// In the order in which they were given.
    public let names: [String]
    private let nameOfBlock: [AddressBlock: String]
    /// The prefix lengths that occur, longest first. An address is looked up once for each length, however many blocks
    /// there are.
    private let lengths4: [Int]
    private let lengths6: [Int]

    /// No classes.
    public init() {
        self.init(names: [], nameOfBlock: [:])
    }

    /// - Parameter definitions: Each is `NAME=CIDR[,CIDR...]`, with blocks as ``AddressBlock/init(_:)`` takes them. A
    ///   block may come twice in a class.
    /// - Throws: ``Fault``, for the first definition that is wrong.
    public init(_ definitions: [String]) throws(Fault) {
        var names: [String] = []
        var known: Set<String> = []
        var nameOfBlock: [AddressBlock: String] = [:]
        for definition in definitions {
            let (name, blocks) = try Self.parse(definition)
            guard known.insert(name).inserted else { throw Fault(definition: definition, reason: .duplicateName(name)) }
            names.append(name)
            for block in blocks {
                if let other = nameOfBlock[block], other != name {
                    throw Fault(definition: definition, reason: .takenBlock(block, by: other))
                }
                nameOfBlock[block] = name
            }
        }
        self.init(names: names, nameOfBlock: nameOfBlock)
    }

    private init(names: [String], nameOfBlock: [AddressBlock: String]) {
        self.names = names
        self.nameOfBlock = nameOfBlock
        func lengths(_ blocks: some Sequence<AddressBlock>) -> [Int] { Set(blocks.map(\.bits)).sorted(by: >) }
        self.lengths4 = lengths(nameOfBlock.keys.filter(\.first.isIPv4))
        self.lengths6 = lengths(nameOfBlock.keys.filter { !$0.first.isIPv4 })
    }

    public var isEmpty: Bool { self.names.isEmpty }

    /// As ``init(_:)`` takes them, the blocks of a class in the order of their texts.
    public var definitions: [String] {
        let blocks = Dictionary(grouping: self.nameOfBlock.keys) { self.nameOfBlock[$0] ?? "" }
        return self.names.map { $0 + "=" + blocks[$0, default: []].map(\.description).sorted().joined(separator: ",") }
    }

    /// - Returns: `nil` for an address in no class, and for an unspecified address.
    public func name(of address: InternetAddress) -> String? {
        guard !address.isUnspecified else { return nil }
        for bits in address.isIPv4 ? self.lengths4 : self.lengths6 {
            if let block = AddressBlock(around: address, bits: bits), let name = self.nameOfBlock[block] { return name }
        }
        return nil
    }

    private static func parse(_ definition: String) throws(Fault) -> (name: String, blocks: [AddressBlock]) {
        guard let sign = definition.firstIndex(of: "=") else { throw Fault(definition: definition, reason: .noBlocks) }
        let name = String(definition[..<sign])
        guard self.isName(name) else { throw Fault(definition: definition, reason: .name(name)) }
        let list = definition[definition.index(after: sign)...]
        guard !list.isEmpty else { throw Fault(definition: definition, reason: .noBlocks) }
        var blocks: [AddressBlock] = []
        for text in list.split(separator: ",", omittingEmptySubsequences: false) {
            do throws(AddressBlock.Fault) {
                blocks.append(try AddressBlock(text))
            } catch {
                throw Fault(definition: definition, reason: .block(error))
            }
        }
        return (name, blocks)
    }

    /// Whether `text` is a valid name for a class: lower-case letters, digits, `_` and `-`, at least one character.
    package static func isName(_ text: String) -> Bool {
        !text.isEmpty
            && text.utf8.allSatisfy { byte in
                switch byte {
                case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "0")...UInt8(ascii: "9"),
                    UInt8(ascii: "_"), UInt8(ascii: "-"):
                    true
                default: false
                }
            }
    }
}

extension AddressClasses {
    /// Which definition is wrong, and what is wrong with it.
    public struct Fault: Error, Hashable, Sendable, CustomStringConvertible {
        public enum Reason: Hashable, Sendable {
            /// No `=`, or nothing after it.
            case noBlocks
            case name(String)
            case duplicateName(String)
            case block(AddressBlock.Fault)
            /// Another class already has the very same block.
            case takenBlock(AddressBlock, by: String)
        }

        public var definition: String
        public var reason: Reason

        package init(definition: String, reason: Reason) {
            (self.definition, self.reason) = (definition, reason)
        }

        public var description: String {
            switch self.reason {
            case .noBlocks: "'\(self.definition)' is not NAME=CIDR[,CIDR...], such as paid=0.0.0.0/0,::/0"
            case .name(let name): "'\(name)' is not a name for a class: lower-case letters, digits, _ and -"
            case .duplicateName(let name): "class '\(name)' is given twice; list all its blocks in one, with commas"
            case .block(let fault): "\(fault)"
            case .takenBlock(let block, let name): "\(block) is in class '\(name)' already"
            }
        }
    }
}
