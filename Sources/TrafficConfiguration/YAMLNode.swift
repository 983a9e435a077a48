/// A value of a YAML file, with its place. Every scalar is text: what `no` or `010` means is decided by whoever wants the
/// value, and never by YAML.
package struct YAMLNode: Hashable, Sendable {
    package enum Content: Hashable, Sendable {
        /// Nothing, not even quotes: `key:` and no more.
        case empty
        case text(String)
        case list([YAMLNode])
        /// No key comes twice.
        case mapping([Entry])
    }

    package struct Entry: Hashable, Sendable {
        package var key: String
        package var position: TextPosition
        package var value: YAMLNode
    }

    package var content: Content
    package var position: TextPosition
}
